/* auth: all loops ask while users come, change and go: what a loop finds is whole, and what was taken away is gone. Under
 * TSan this shows that readers need no lock. */
#include <stdatomic.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/mem.h"
#include "check.h"
#include "rt/loop.h"

#define LOOPS  4
#define ROUNDS 60

static char folder[] = "/tmp/fb-users-mt-XXXXXX";
static struct auth *a;
static _Atomic bool over;
static _Atomic unsigned asked;
static _Atomic unsigned begun;

/* The key that stays must always be there, with the grant that stays; the other's user is whole whenever it is found. */
static void
ask(void *arg)
{
    struct span kept = span_of(arg);

    atomic_fetch_add(&begun, 1);
    while (!atomic_load(&over)) {
        const struct auth_users *list = auth_users_now(a);
        const struct auth_key *k = auth_find(a, kept);

        REQUIRE(k != NULL);
        CHECK_STR(k->user->name, "stays");
        CHECK(auth_may(k->user, AUTH_READ, SPAN("b"), SPAN("p/x")));
        CHECK(!auth_may(k->user, AUTH_WRITE, SPAN("b"), SPAN("p/x")));
        for (uint32_t i = 0; i < auth_users_count(list); i++) {
            struct auth_shown u;

            auth_users_at(list, i, &u);
            CHECK(strlen(u.name) > 0 && u.key_count <= 3);
            for (uint32_t n = 0; n < u.key_count; n++)
                CHECK_STR(auth_users_key(list, i, n)->user->name, u.name);
        }
        atomic_fetch_add(&asked, 1);
        rt_yield(); /* what was lent is given back here */
    }
}

static void
ask_everywhere(void *arg)
{
    struct rt_group g;

    rt_group_begin(&g);
    CHECK(rt_group_start(&g, ask, arg) == ERR_OK);
    rt_group_join(&g);
}

struct elsewhere {
    unsigned loop;
    void *arg;
};

static void
call(void *arg)
{
    struct elsewhere *e = arg;

    CHECK(rt_call(e->loop, ask_everywhere, e->arg) == ERR_OK);
}

static void
change(void)
{
    struct errbuf eb = {{0}};
    struct auth_new_key made, next;

    for (unsigned i = 0; i < ROUNDS; i++) {
        CHECK(auth_user_add(a, SPAN("goes"), &made, &eb) == ERR_OK);
        CHECK(auth_user_grant(a, SPAN("goes"), AUTH_ALL, SPAN("*"), SPAN(""), &eb) ==
              ERR_OK);
        CHECK(auth_user_rotate(a, SPAN("goes"), 0, &next, &eb) == ERR_OK);
        CHECK(auth_find(a, span_of(made.id)) == NULL);
        CHECK(auth_find(a, span_of(next.id)) != NULL);
        CHECK(auth_user_remove(a, SPAN("goes"), &eb) == ERR_OK);
        CHECK(auth_find(a, span_of(next.id)) == NULL);
    }
}

static void
world(void *arg)
{
    struct auth_options o = {.required = true};
    struct elsewhere e[LOOPS];
    struct rt_dir *dir = NULL;
    struct meta *meta = NULL;
    struct auth_new_key kept;
    struct errbuf eb = {{0}};
    struct rt_group g;

    (void)arg;
    REQUIRE(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    REQUIRE(meta_open_embedded(dir, &meta, &eb) == ERR_OK);
    REQUIRE(auth_new(&o, &a, &eb) == ERR_OK);
    REQUIRE(auth_load_meta(a, meta, &eb) == ERR_OK);
    REQUIRE(auth_user_add(a, SPAN("stays"), &kept, &eb) == ERR_OK);
    REQUIRE(auth_user_grant(a, SPAN("stays"), AUTH_READ, SPAN("b"), SPAN("p/"), &eb) ==
            ERR_OK);
    rt_group_begin(&g);
    for (unsigned i = 0; i < LOOPS; i++) {
        e[i] = (struct elsewhere){i, kept.id};
        CHECK(rt_group_start(&g, call, &e[i]) == ERR_OK);
    }
    while (atomic_load(&begun) < LOOPS)
        rt_yield();
    change();
    atomic_store(&over, true);
    rt_group_join(&g);
    CHECK(atomic_load(&asked) >= LOOPS);
    auth_free(&a);
    meta_close(&meta);
    rt_dir_close(&dir);
}

static void
test_asking_while_users_change(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = LOOPS};
    struct errbuf eb = {{0}};

    REQUIRE(mkdtemp(folder) != NULL && chdir(folder) == 0);
    CHECK(rt_run(&o, world, NULL, &eb) == ERR_OK);
    unlink("data.mdb");
    unlink("lock.mdb");
    unlink("second.mdb");
    unlink("second.mdb-lock");
    CHECK(rmdir(folder) == 0);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_asking_while_users_change);
    return check_done();
}
