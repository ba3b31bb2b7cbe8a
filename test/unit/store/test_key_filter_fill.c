/* A start with a good index learns its keys behind everything else. Whatever is not learned yet, or was learned, a put that
 * must find nothing finds what is there: in the index, in the tail, of keys in layers, of several buckets. */
#include "check.h"
#include "store/core/core.h"
#include "store/index/key_filter.h"
#include "store/index/run.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_write.h"
#include "store/wal/flush.h"
#include "world.h"

enum { KEYS = 600 }; /* more than a page of each bucket */

static enum err
put(struct store *d, uint64_t bucket, const char *key, bool if_absent)
{
    struct store_condition c = {.if_absent = if_absent};
    struct store_key k = world_key(bucket, key);
    struct object_meta meta = {.mtime_ms = 1700000000123, .md5 = {1}};
    struct errbuf eb = {0};
    struct store_writer *w;
    enum err rc = store_write_begin(d, &k, STORE_NATIVE, 1, &w, &eb);

    if (rc == ERR_OK)
        rc = store_write(w, "x", 1, &eb);
    return rc == ERR_OK ? store_commit(&w, &meta, &c, NULL, &eb) : rc;
}

static void
name(char out[STORE_KEY_MAX + 1], unsigned n)
{
    int len = snprintf(out, 32, "key-%05u", n);

    if (n % 200 == 0) { /* in two layers */
        memset(out + len, 'l', 600);
        out[len + 600] = '\0';
    }
}

static void
put_all(struct store *d, bool if_absent, enum err want)
{
    char key[STORE_KEY_MAX + 1];

    for (unsigned n = 0; n < KEYS; n++) {
        name(key, n);
        CHECK(put(d, 7, key, if_absent) == want);
        if (n % 20 == 0)
            CHECK(put(d, 9, key, if_absent) == want);
    }
}

static void
learn(struct store *d)
{
    struct errbuf eb = {0};

    for (unsigned i = 0; i < 100 && !key_filter_is_complete(d->key_filter); i++)
        CHECK(flush_wait(d, &eb) == ERR_OK);
    CHECK(key_filter_is_complete(d->key_filter));
}

static void
a_new_disk_knows(void *arg)
{
    struct store *d = world_open(NULL);
    struct errbuf eb = {0};

    (void)arg;
    CHECK(key_filter_is_complete(d->key_filter));
    put_all(d, true, ERR_OK);
    put_all(d, true, ERR_PRECONDITION);
    CHECK(store_flush(d, &eb) == ERR_OK);
    put_all(d, true, ERR_PRECONDITION);
    store_close(&d);
}

static void
a_start_learns(void *arg)
{
    struct store *d = world_open(NULL);

    (void)arg;
    put_all(d, true, ERR_OK);
    store_close(&d);
    d = world_open(NULL); /* it may know some keys already */
    CHECK(put(d, 7, "key-00001", true) == ERR_PRECONDITION);
    CHECK(put(d, 7, "beside", true) == ERR_OK);
    learn(d);
    CHECK(put(d, 7, "beside", true) == ERR_PRECONDITION);
    CHECK(put(d, 9, "beside", true) == ERR_OK);
    CHECK(!key_filter_maybe(d->key_filter, run_key_hash(7, SPAN("never"))));
    put_all(d, true, ERR_PRECONDITION);
    put_all(d, false, ERR_OK);
    store_close(&d);
}

static void
test_new_disk(void)
{
    world_run(a_new_disk_knows, NULL);
}

static void
test_start(void)
{
    world_run(a_start_learns, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_new_disk);
    RUN(test_start);
    return check_done();
}
