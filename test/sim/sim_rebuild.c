/* A random workload, some lives of it cut; then the disk loses its index, both superblocks, or both; is rebuilt, and
 * held against the ledger: nothing deleted comes back, nothing completed is gone. Protects I5, D1. Every fourth seed
 * loses its logs instead: then what stands in body segments comes back, and whatever is read is right.
 */
#include "sim/store_life.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_options.h"
#include "store/store_rescue.h"

enum hurt { HURT_INDEX, HURT_SUPERBLOCKS, HURT_BOTH, HURT_LOGS, HURTS_ };

struct hurting {
    enum hurt what;
    struct rt_dir *dir;
    enum err rc;
};

static void
zero(struct rt_dir *dir, const char *name)
{
    struct rt_file *f = NULL;
    struct iobuf *b = NULL;
    struct errbuf eb = {0};

    CHECK(rt_open(dir, name, RT_O_WRITE, 0, &f, &eb) == ERR_OK);
    CHECK(iobuf_get(4096, &b) == ERR_OK);
    memset(b->at, 0, 4096);
    CHECK(rt_write(f, 0, b, 0, 4096, RT_WRITE, &eb) == ERR_OK);
    CHECK(rt_sync(f, &eb) == ERR_OK);
    iobuf_drop(&b);
    rt_file_close(&f);
}

static void
remove_log(const char *name, void *arg)
{
    struct hurting *h = arg;
    struct errbuf eb = {0};

    if (strncmp(name, "log-", 4) == 0)
        CHECK(rt_dir_unlink(h->dir, name, &eb) == ERR_OK);
}

static struct rt_dir *
folder(struct rt_dir *root, const char *name)
{
    struct rt_dir *dir = NULL;
    struct errbuf eb = {0};

    CHECK(rt_dir_open_at(root, name, &dir, &eb) == ERR_OK);
    return dir;
}

static void
hurt(void *arg)
{
    struct hurting *h = arg;
    struct rt_dir *root = NULL, *dir;
    struct errbuf eb = {0};

    CHECK(rt_dir_open(PATH, &root, &eb) == ERR_OK);
    if (h->what != HURT_SUPERBLOCKS) { /* without logs the index is of no use either */
        dir = folder(root, "index");
        CHECK(rt_dir_unlink(dir, "data.mdb", &eb) == ERR_OK);
        rt_dir_close(&dir);
    }
    if (h->what == HURT_SUPERBLOCKS || h->what == HURT_BOTH) {
        dir = folder(root, ".forebay");
        zero(dir, "superblock");
        zero(dir, "superblock.2");
        rt_dir_close(&dir);
    }
    if (h->what == HURT_LOGS) {
        h->dir = folder(root, "native");
        CHECK(rt_dir_list(h->dir, remove_log, h, &eb) == ERR_OK);
        CHECK(rt_dir_sync(h->dir, &eb) == ERR_OK);
        rt_dir_close(&h->dir);
    }
    rt_dir_close(&root);
}

struct rebuilding {
    struct store_rebuild_options o;
    struct store_rebuilt result;
    enum err rc;
    struct errbuf eb;
};

static void
rebuild(void *arg)
{
    struct rebuilding *r = arg;

    r->rc = store_rebuild(PATH, &r->o, &r->result, &r->eb);
}

/* What the ledger knows stays true only for bodies that did not lie in a log. Of the others nothing is left; of
 * several versions of one key the last one that lay in a body segment is back. */
static void
look_without_logs(void *arg)
{
    struct life *f = arg;
    struct store_options o = {
        .node = 1, .segment_bytes = 2u << 20, .index_map_bytes = 16u << 20};
    struct errbuf eb = {0};

    memset(o.cluster_id, 0x5a, sizeof o.cluster_id);
    REQUIRE(store_open(PATH, &o, &f->disk, &eb) == ERR_OK);
    for (unsigned i = 0; i < LEDGER_KEYS; i++) {
        struct ledger_key *k = &f->ledger->keys[i];
        struct store_key key = key_of(k);
        struct entry entry = {0};
        enum err rc = store_lookup(f->disk, &key, &entry, &eb);

        if (rc == ERR_OK)
            check_body(f, k, &key, &entry); /* right for the write that it says it is */
        else
            CHECK(rc == ERR_NOT_FOUND);
        if (k->maybe_count == 0 && k->known.write != 0 &&
            k->known.size > STORE_INLINE_MAX && !k->busy)
            CHECK(rc == ERR_OK && (uint64_t)entry.mtime_ms == k->known.write);
    }
    store_close(&f->disk);
}

static uint64_t
run(uint64_t seed)
{
    struct sim_options o = {.seed = seed, .lossy = true, .max_delay_us = 300};
    struct sim *s = sim_new(&o);
    struct ledger ledger;
    struct life f = {.ledger = &ledger, .class = STORE_NATIVE};
    struct hurting h = {.what = (enum hurt)(seed % HURTS_)};
    struct rebuilding r = {.o.from_bodies = h.what == HURT_LOGS};
    uint64_t hash = 0, state = seed;
    struct errbuf eb = {0};

    ledger_init(&ledger);
    f.body = malloc((size_t)WORKERS * BODY_TOP);
    /* A third of the others works in the class cached: a rebuild may lose of it, and brings nothing old back. */
    f.class = h.what != HURT_LOGS && seed % 3 == 0 ? STORE_CACHED : STORE_NATIVE;
    f.no_uploads = h.what == HURT_LOGS; /* such an object is one only by its log */
    for (unsigned i = 0; i < 3; i++) {
        f.epoch = i + 1;
        state = hash_xxh3(&state, sizeof state, i);
        f.ops = 4 + (unsigned)(state % 10);
        f.may_lose = f.class == STORE_CACHED && i > 0;
        sim_cut_at(s, i == 1 ? 20 + state % 200 : 0);
        if (sim_run_world(s, live, &f, &eb) != ERR_OK)
            CHECK(sim_was_cut(s));
        hash = hash_xxh3(&(uint64_t){sim_trace_hash(s)}, 8, hash);
    }
    CHECK(sim_run_world(s, hurt, &h, &eb) == ERR_OK);
    CHECK(sim_run_world(s, rebuild, &r, &eb) == ERR_OK);
    if (r.rc != ERR_OK)
        CHECK_STR(r.eb.text, "");
    CHECK(r.result.superblock == (h.what == HURT_SUPERBLOCKS || h.what == HURT_BOTH));
    f.epoch = 4;
    f.check_only = true;
    f.may_lose = f.class == STORE_CACHED;
    CHECK(sim_run_world(s, h.what == HURT_LOGS ? look_without_logs : live, &f, &eb) ==
          ERR_OK);
    free(f.body);
    sim_free(&s);
    return hash;
}

int
main(int argc, char **argv)
{
    log_set_level(getenv("V") ? LOG_DEBUG : LOG_ERROR + 1);
    return sim_main(argc, argv, run);
}
