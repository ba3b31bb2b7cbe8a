/* The committer asks for the node's lease before a batch and after its sync: a node of a cluster that has lost it orders no
 * change, and does not acknowledge one that became durable too late. */
#include "world_damage.h"

static char *data;

/* Answers `yes` so many times, then no. */
struct lease {
    unsigned yes;
    unsigned asked;
};

static bool
lease_holds(void *arg)
{
    struct lease *l = arg;

    l->asked++;
    if (l->yes == 0)
        return false;
    l->yes--;
    return true;
}

static struct store *
open_with(struct lease *l)
{
    struct store_options o = world_options();

    o.may_order = lease_holds;
    o.may_order_arg = l;
    return world_open(&o);
}

static void
no_lease(void *arg)
{
    struct lease l = {.yes = 2};
    struct store *d = open_with(&l);
    struct store_key k = world_key(7, "a");
    struct errbuf eb = {0};
    struct entry e, was;
    bool existed;

    (void)arg;
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 10, true, NULL, &was) == ERR_OK);
    CHECK_U64(l.yes, 0);
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 20, true, NULL, &e) ==
          ERR_UNAVAILABLE);
    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_UNAVAILABLE);
    CHECK_SAYS(eb.text, "this node has no lease in its cluster: the change was not made");
    CHECK(world_put_class(d, STORE_CACHED, "c", data, 20, true, NULL, &e) ==
          ERR_UNAVAILABLE);
    CHECK(store_lookup(d, &k, &e, &eb) == ERR_OK);
    CHECK(memcmp(&e.version, &was.version, sizeof e.version) == 0);
    l.yes = 100;
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 20, true, NULL, &e) == ERR_OK);
    store_close(&d);
}

/* The second answer is the one after the sync: the change is there, and its caller is not told that it is. */
static void
ended_during_the_sync(void *arg)
{
    struct lease l = {.yes = 1};
    struct store *d = open_with(&l);
    struct store_key k = world_key(7, "a");
    struct errbuf eb = {0};
    struct entry e;

    (void)arg;
    CHECK(world_put_class(d, STORE_NATIVE, "a", data, 10, true, NULL, &e) ==
          ERR_UNAVAILABLE);
    CHECK_U64(l.asked, 2);
    CHECK(store_lookup(d, &k, &e, &eb) == ERR_OK);
    store_close(&d);
    d = world_open(NULL);
    CHECK(world_get(d, "a", data, 10, 0, 10) == ERR_OK);
    store_close(&d);
}

/* What makes room for others is no order of a key. */
static void
evicted_without_a_lease(void *arg)
{
    struct lease l = {.yes = 2};
    struct store *d = open_with(&l);
    struct store_key k = world_key(7, "c");
    struct errbuf eb = {0};
    struct entry e;
    bool existed;

    (void)arg;
    CHECK(world_put_class(d, STORE_CACHED, "c", data, 10, true, NULL, &e) == ERR_OK);
    CHECK(store_delete(d, &k, STORE_CACHED, NULL, &existed, &eb) == ERR_OK && existed);
    store_close(&d);
}

static void
test_no_lease(void)
{
    world_run(no_lease, NULL);
}

static void
test_ended_during_the_sync(void)
{
    world_run(ended_during_the_sync, NULL);
}

static void
test_evicted_without_a_lease(void)
{
    world_run(evicted_without_a_lease, NULL);
}

int
main(void)
{
    log_set_level(LOG_WARN);
    data = xcalloc(1, 4096);
    RUN(test_no_lease);
    RUN(test_ended_during_the_sync);
    RUN(test_evicted_without_a_lease);
    free(data);
    return check_done();
}
