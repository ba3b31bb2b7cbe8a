/* Versions on several disks: whatever comes, goes or is drained, every version of every key is there with its id, its
 * bytes, tags and time, in order, with one copy and with two. Protects D4 and D5 for versions. */
#include "rig.h"

#include "rt/sim.h"
#include "rt/sim_trouble.h"

#define KEYS     24
#define VERSIONS 5

struct told {
    struct version id[KEYS][VERSIONS];
    int64_t mtime[KEYS][VERSIONS];
    bool marker[KEYS][VERSIONS];
    unsigned first[KEYS], count[KEYS]; /* oldest first; before `first` they are gone */
    unsigned tag[KEYS];                /* of the oldest */
};

static void
name_of(unsigned i, char out[32])
{
    snprintf(out, 32, "key-%02u", i);
}

static size_t
size_of(unsigned key, unsigned n)
{
    return (key + n) % 7 == 0 ? 300000 + key : 100 + 13 * key + n;
}

static void
put_version(struct rig *g, struct told *t, unsigned key, enum store_versioning versioning)
{
    char name[32];
    struct disks_key k;
    unsigned n = t->count[key];
    struct object_meta meta = {.mtime_ms = 1700000000000 + n,
                               .versioning = (uint8_t)versioning};
    struct disks_writer *w = NULL;
    size_t len = size_of(key, n);
    char *data = xmalloc(len);
    struct entry entry;

    name_of(key, name);
    k = rig_key(g, name);
    rig_fill(data, len, 100 * key + n);
    REQUIRE(disks_write_begin(g->ds, &k, STORE_NATIVE, len, &w, &g->eb) == ERR_OK);
    REQUIRE(disks_write(w, data, len, &g->eb) == ERR_OK);
    REQUIRE(disks_commit(&w, &meta, NULL, &entry, &g->eb) == ERR_OK);
    t->id[key][n] = entry_born(&entry);
    t->mtime[key][n] = meta.mtime_ms;
    t->marker[key][n] = false;
    t->count[key]++;
    free(data);
}

static void
put_marker(struct rig *g, struct told *t, unsigned key)
{
    char name[32];
    struct disks_key k;
    struct entry entry;
    unsigned n = t->count[key]++;

    name_of(key, name);
    k = rig_key(g, name);
    REQUIRE(disks_delete_mark(g->ds, &k, STORE_VERSIONED, NULL, &entry, &g->eb) ==
            ERR_OK);
    t->id[key][n] = entry_born(&entry);
    t->mtime[key][n] = entry.mtime_ms;
    t->marker[key][n] = true;
}

static void
tag_oldest(struct rig *g, struct told *t, unsigned key, unsigned tag)
{
    char name[32], text[32];
    struct disks_key k;
    struct object_meta meta = {.mtime_ms = t->mtime[key][0]};
    struct entry entry;

    name_of(key, name);
    k = rig_key(g, name);
    snprintf(text, sizeof text, "t=%u", tag);
    meta.tags = span_of(text);
    REQUIRE(disks_set_meta(g->ds, &k, &t->id[key][0], &meta, NULL, &entry, &g->eb) ==
            ERR_OK);
    t->tag[key] = tag;
}

static void
write_all(struct rig *g, struct told *t)
{
    for (unsigned key = 0; key < KEYS; key++) {
        put_version(g, t, key, key % 3 == 0 ? STORE_UNVERSIONED : STORE_VERSIONED);
        for (unsigned n = 1; n < VERSIONS - 1; n++)
            put_version(g, t, key, STORE_VERSIONED);
        if (key % 2 == 0)
            put_marker(g, t, key);
        if (key % 5 == 0)
            tag_oldest(g, t, key, key + 1);
    }
}

static void
check_bytes(struct rig *g, const struct disks_key *k, const struct entry *entry,
            uint64_t seed)
{
    struct disks_reader r = {0};
    char *want = xmalloc(entry->size + 1);
    struct span piece;
    uint64_t at = 0;

    rig_fill(want, entry->size, seed);
    REQUIRE(disks_read_begin(g->ds, k, entry, 0, entry->size, &r, &g->eb) == ERR_OK);
    while (at < entry->size) {
        REQUIRE(disks_read_next(&r, DEADLINE_NEVER, &piece, &g->eb) == ERR_OK);
        CHECK(memcmp(piece.at, want + at, piece.len) == 0);
        at += piece.len;
    }
    disks_read_end(&r);
    free(want);
}

static void
check_version(struct rig *g, const struct told *t, unsigned key, unsigned n)
{
    char name[32], text[32];
    struct disks_key k;
    struct arena *a = arena_new(KIB(8), KIB(256));
    struct object_meta meta;
    struct entry entry;
    bool current;

    name_of(key, name);
    k = rig_key(g, name);
    REQUIRE(disks_version_find(g->ds, &k, &t->id[key][n], &entry, &current, &g->eb) ==
            ERR_OK);
    CHECK(current == (n + 1 == t->count[key]));
    CHECK(((entry.flags & ENTRY_MARKER) != 0) == t->marker[key][n]);
    CHECK(entry.mtime_ms == t->mtime[key][n]);
    if (!t->marker[key][n]) {
        CHECK_U64(entry.size, size_of(key, n));
        check_bytes(g, &k, &entry, 100 * key + n);
        REQUIRE(disks_meta(g->ds, &k, &entry, a, &meta, &g->eb) == ERR_OK);
        snprintf(text, sizeof text, "t=%u", t->tag[key]);
        CHECK(n == 0 && t->tag[key] > 0 ? span_is(meta.tags, text) : meta.tags.len == 0);
    }
    arena_free(&a);
}

static void
check_all(struct rig *g, const struct told *t)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    struct store_version *found;
    uint32_t count, at = 0;
    bool more;

    for (unsigned key = 0; key < KEYS; key++)
        for (unsigned n = t->first[key]; n < t->count[key]; n++)
            check_version(g, t, key, n);
    REQUIRE(disks_version_list(g->ds, RIG_BUCKET, g->copies, SPAN(""), true, NULL, 1000,
                               a, &found, &count, &more, &g->eb) == ERR_OK);
    for (unsigned key = 0; key < KEYS; key++)
        for (unsigned n = t->count[key]; n-- > t->first[key]; at++) {
            struct version id;

            REQUIRE(at < count);
            id = entry_born(&found[at].entry);
            CHECK(id.epoch == t->id[key][n].epoch && id.counter == t->id[key][n].counter);
            CHECK(found[at].latest == (n + 1 == t->count[key]));
        }
    CHECK_U64(at, count);
    arena_free(&a);
}

static void
come_and_go(void *arg)
{
    struct rig *g = arg;
    struct told *t = xcalloc(1, sizeof *t);
    uint8_t id[16];
    struct entry was;
    struct disks_key k;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    write_all(g, t);
    check_all(g, t);
    CHECK(disks_add(g->ds, g->path[2], id, &g->eb) == ERR_OK);
    CHECK(rig_converged(g));
    check_all(g, t);
    CHECK(disks_drain(g->ds, g->path[0], false, &g->eb) == ERR_OK);
    for (unsigned key = 1; key < KEYS; key += 4) /* while they move */
        if (!t->marker[key][t->count[key] - 1])
            tag_oldest(g, t, key, 90 + key);
    CHECK(rig_converged(g));
    check_all(g, t);
    /* Ended by id, the current one too: what was before it is there. */
    k = rig_key(g, "key-01");
    t->count[1]--;
    CHECK(disks_version_delete(g->ds, &k, &t->id[1][t->count[1]], NULL, &was, &g->eb) ==
          ERR_OK);
    check_all(g, t);
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 7) == ERR_OK);
    check_all(g, t);
    disks_close(&g->ds);
    free(t);
}

static void
test_versions_move_with_one_copy(void)
{
    rig_run(come_and_go, &(struct rig){.copies = 1});
}

static void
test_versions_move_with_two_copies(void)
{
    rig_run(come_and_go, &(struct rig){.copies = 2});
}

/* ---- a disk that was away ---- */

static void
end_one(struct rig *g, struct told *t, unsigned key, unsigned n)
{
    char name[32];
    struct disks_key k;
    struct entry was;

    name_of(key, name);
    k = rig_key(g, name);
    REQUIRE(disks_version_delete(g->ds, &k, &t->id[key][n], NULL, &was, &g->eb) ==
            ERR_OK);
}

static void
check_is_gone(struct rig *g, const struct told *t, unsigned key, unsigned n)
{
    char name[32];
    struct disks_key k;
    struct entry entry;
    bool current;

    name_of(key, name);
    k = rig_key(g, name);
    CHECK(disks_version_find(g->ds, &k, &t->id[key][n], &entry, &current, &g->eb) ==
          ERR_NOT_FOUND);
}

static void
check_ended(struct rig *g, const struct told *t)
{
    struct disks_key none = rig_key(g, "key-03");
    struct entry entry;

    check_all(g, t);
    check_is_gone(g, t, 1, VERSIONS - 2);
    check_is_gone(g, t, 2, VERSIONS - 1);
    check_is_gone(g, t, 4, 0);
    for (unsigned n = 0; n < VERSIONS - 1; n++)
        check_is_gone(g, t, 3, n);
    CHECK(disks_lookup(g->ds, &none, &entry, &g->eb) == ERR_NOT_FOUND);
}

static void
ended_while_away(void *arg)
{
    struct rig *g = arg;
    struct told *t = xcalloc(1, sizeof *t);

    REQUIRE(rig_open(g, 3) == ERR_OK);
    write_all(g, t);
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 1, g->path[1]) == ERR_OK);
    end_one(g, t, 1, --t->count[1]); /* a current one: what was before it is current */
    end_one(g, t, 2, --t->count[2]); /* a marker */
    end_one(g, t, 4, t->first[4]++); /* an older one */
    for (unsigned n = t->count[3]; n-- > 0;)
        end_one(g, t, 3, n); /* all of a key */
    t->count[3] = 0;
    check_ended(g, t);
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 3) == ERR_OK); /* back, with all of them */
    check_ended(g, t);
    CHECK(rig_converged(g));
    check_ended(g, t);
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 2, g->path[0]) == ERR_OK); /* alone it knows as well */
    check_ended(g, t);
    disks_close(&g->ds);
    free(t);
}

static void
test_versions_that_end_while_a_disk_is_away(void)
{
    rig_run(ended_while_away, &(struct rig){.copies = 2, .min_copies = 1});
}

/* While a disk is away, an end that its condition refuses leaves no mark: the version is there, also when the disk is back. */
static void
refused_while_away(void *arg)
{
    struct rig *g = arg;
    struct told *t = xcalloc(1, sizeof *t);
    struct store_condition c = {.if_exists = true, .if_size = true, .size = 1};
    struct disks_key k = rig_key(g, "key-01");
    struct entry was;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    write_all(g, t);
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 1, g->path[1]) == ERR_OK);
    for (unsigned n = 0; n < t->count[1]; n++)
        CHECK(disks_version_delete(g->ds, &k, &t->id[1][n], &c, &was, &g->eb) ==
              ERR_PRECONDITION);
    check_all(g, t);
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 3) == ERR_OK);
    check_all(g, t);
    CHECK(rig_converged(g));
    check_all(g, t);
    c.size = size_of(1, t->count[1] - 1);
    CHECK(disks_version_delete(g->ds, &k, &t->id[1][t->count[1] - 1], &c, &was, &g->eb) ==
          ERR_OK);
    t->count[1]--;
    check_all(g, t);
    disks_close(&g->ds);
    free(t);
}

static void
test_an_end_that_is_refused_leaves_no_mark(void)
{
    rig_run(refused_while_away, &(struct rig){.copies = 2, .min_copies = 1});
}

/* ---- what a null version replaced ---- */

/* A disk that is away has the null version of before versioning; it is replaced, and what replaced it ends. */
static void
replaced_while_away(void *arg)
{
    struct rig *g = arg;
    struct told *t = xcalloc(1, sizeof *t);
    struct disks_key k = rig_key(g, "key-00");
    struct entry entry;

    REQUIRE(rig_open(g, 3) == ERR_OK);
    put_version(g, t, 0, STORE_UNVERSIONED);
    disks_close(&g->ds);
    REQUIRE(rig_open_without(g, 1, g->path[1]) == ERR_OK);
    put_version(g, t, 0, STORE_SUSPENDED);
    end_one(g, t, 0, 1);
    t->count[0] = 0;
    check_all(g, t);
    disks_close(&g->ds);
    REQUIRE(rig_open(g, 3) == ERR_OK); /* back, with the one that was replaced */
    CHECK(disks_lookup(g->ds, &k, &entry, &g->eb) == ERR_NOT_FOUND);
    check_is_gone(g, t, 0, 0);
    CHECK(rig_converged(g));
    CHECK(disks_lookup(g->ds, &k, &entry, &g->eb) == ERR_NOT_FOUND);
    check_is_gone(g, t, 0, 0);
    check_all(g, t);
    disks_close(&g->ds);
    free(t);
}

static void
test_a_replaced_null_version_that_was_away(void)
{
    rig_run(replaced_while_away, &(struct rig){.copies = 2, .min_copies = 1});
}

#define CUT_SEEDS 3

struct cut_life {
    /* What the first life does, and what the second one, which only looks, has to find: at once, and after a pass. */
    void (*act)(struct cut_life *f, struct disks *ds, const struct disks_key *k);
    void (*look)(struct cut_life *f, struct disks *ds, const struct disks_key *k);
    enum store_versioning first;
    const char *victim; /* mount of the disk that cannot be written, or NULL */
    unsigned turns;     /* of the loop between two deeds that are under way at once */

    struct sim *sim;
    uint64_t epoch;
    uint64_t begun, over;        /* events before and behind what it does */
    bool looks, tagged, ended;   /* tags and end were answered */
    struct version replaced, id; /* of what was replaced, and of what did; 0: no answer */
};

static enum err
put_one(struct disks *ds, const struct disks_key *k, enum store_versioning versioning,
        struct version *id)
{
    struct object_meta meta = {.mtime_ms = 1, .versioning = (uint8_t)versioning};
    struct disks_writer *w;
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc = disks_write_begin(ds, k, STORE_NATIVE, 3, &w, &eb);

    if (rc == ERR_OK)
        rc = disks_write(w, "abc", 3, &eb);
    if (rc == ERR_OK)
        rc = disks_commit(&w, &meta, NULL, &entry, &eb);
    disks_write_abort(&w);
    if (rc == ERR_OK)
        *id = entry_born(&entry);
    return rc;
}

static void
look_for_replaced(struct cut_life *f, struct disks *ds, const struct disks_key *k)
{
    struct errbuf eb = {0};
    struct entry entry;
    bool current;
    enum err rc = disks_version_find(ds, k, &f->replaced, &entry, &current, &eb);

    if (f->id.epoch == 0) /* its replacement got no answer */
        return;
    CHECK(rc == ERR_NOT_FOUND);
    rc = disks_lookup(ds, k, &entry, &eb);
    CHECK(rc == ERR_NOT_FOUND || (rc == ERR_OK && !f->ended));
    if (rc == ERR_OK)
        CHECK(entry_born(&entry).counter == f->id.counter);
}

static void
replace_and_end(struct cut_life *f, struct disks *ds, const struct disks_key *k)
{
    struct errbuf eb = {0};
    struct entry was;

    if (put_one(ds, k, f->first, &f->replaced) == ERR_OK &&
        put_one(ds, k, STORE_SUSPENDED, &f->id) == ERR_OK)
        f->ended = disks_version_delete(ds, k, &f->id, NULL, &was, &eb) == ERR_OK;
}

/* The tags come to one disk only, which is enough for an answer. */
static void
tag_and_end(struct cut_life *f, struct disks *ds, const struct disks_key *k)
{
    struct object_meta meta = {.mtime_ms = 1, .tags = SPAN("t=1")};
    struct disks_key next = rig_key(&(struct rig){.copies = 2}, "next");
    struct errbuf eb = {0};
    struct entry entry, was;

    /* What comes next makes it durable on the other disk that this one was decided. */
    if (put_one(ds, k, STORE_VERSIONED, &f->id) != ERR_OK ||
        put_one(ds, &next, STORE_VERSIONED, &(struct version){0}) != ERR_OK)
        return;
    sim_trouble(f->sim, f->victim, &(struct sim_trouble){.write_errors = 10000});
    f->tagged = disks_set_meta(ds, k, &f->id, &meta, NULL, &entry, &eb) == ERR_OK;
    f->ended = disks_version_delete(ds, k, &f->id, NULL, &was, &eb) == ERR_OK;
}

struct tagging {
    struct cut_life *life;
    struct disks *ds;
    const struct disks_key *k;
};

static void
tag_it(void *arg)
{
    struct tagging *t = arg;
    struct object_meta meta = {.mtime_ms = 1, .tags = SPAN("t=1")};
    struct errbuf eb = {0};
    struct entry entry;

    t->life->tagged =
        disks_set_meta(t->ds, t->k, &t->life->id, &meta, NULL, &entry, &eb) == ERR_OK;
}

/* The same, with the end under way when the tags come: neither knows that the other disk is unreachable. */
static void
tag_beside_end(struct cut_life *f, struct disks *ds, const struct disks_key *k)
{
    struct disks_key next = rig_key(&(struct rig){.copies = 2}, "next");
    struct tagging t = {f, ds, k};
    struct errbuf eb = {0};
    struct rt_group g;
    struct entry was;

    if (put_one(ds, k, STORE_VERSIONED, &f->id) != ERR_OK ||
        put_one(ds, &next, STORE_VERSIONED, &(struct version){0}) != ERR_OK)
        return;
    sim_trouble(f->sim, f->victim, &(struct sim_trouble){.write_errors = 10000});
    rt_group_begin(&g);
    CHECK(rt_group_start(&g, tag_it, &t) == ERR_OK || rt_cancelled());
    for (unsigned i = 0; i < f->turns; i++)
        rt_yield();
    f->ended = disks_version_delete(ds, k, &f->id, NULL, &was, &eb) == ERR_OK;
    rt_group_join(&g);
}

static void
look_for_tags(struct cut_life *f, struct disks *ds, const struct disks_key *k)
{
    struct arena *a = arena_new(KIB(8), KIB(256));
    struct object_meta meta = {0};
    struct errbuf eb = {0};
    struct entry entry;
    bool current;
    enum err rc = disks_version_find(ds, k, &f->id, &entry, &current, &eb);

    CHECK(rc == ERR_NOT_FOUND || (rc == ERR_OK && !f->ended));
    if (rc == ERR_OK) {
        CHECK(disks_meta(ds, k, &entry, a, &meta, &eb) == ERR_OK);
        CHECK(span_is(meta.tags, "t=1") || !f->tagged);
    }
    if (f->id.epoch != 0) /* the put got an answer */
        CHECK(disks_lookup(ds, k, &entry, &eb) == rc);
    arena_free(&a);
}

static bool
cut_bucket(void *arg, uint64_t after, struct disks_bucket *out)
{
    return rig_next_bucket(&(struct rig){.copies = 2}, after, out) && arg == NULL;
}

static void
cut_live(void *arg)
{
    static const char *const paths[] = {"/a/disk", "/b/disk"};
    struct cut_life *f = arg;
    struct disks_options o = {.paths = paths,
                              .count = 2,
                              .state = "/n",
                              .disk = {.node = 1,
                                       .epoch = ++f->epoch,
                                       .segment_bytes = 2u << 20,
                                       .index_map_bytes = 16u << 20}};
    struct disks_key k = rig_key(&(struct rig){.copies = 2}, "key");
    struct disks *ds;
    struct errbuf eb = {0};

    memset(o.disk.cluster_id, 0x5a, sizeof o.disk.cluster_id);
    if (disks_open(&o, &ds, &eb) != ERR_OK) {
        CHECK(rt_cancelled());
        return;
    }
    disks_buckets(ds, cut_bucket, NULL);
    if (f->looks) {
        f->look(f, ds, &k);
        for (unsigned i = 0; i < 20 && rt_sleep_ms(20) == ERR_OK; i++)
            continue; /* what a pass makes of it */
        f->look(f, ds, &k);
    } else {
        f->begun = sim_events(f->sim);
        f->act(f, ds, &k);
        f->over = sim_events(f->sim);
    }
    disks_close(&ds);
}

/* One life that is cut at an event (0: none), one that looks; returns what the first one knows. */
static struct cut_life
cut_once(uint64_t seed, struct cut_life f, uint64_t cut)
{
    struct sim_options o = {.seed = seed, .lossy = true, .max_delay_us = 300};
    struct errbuf eb = {0};
    unsigned before = check_failures_;

    f.sim = sim_new(&o);
    sim_cut_at(f.sim, cut);
    CHECK(sim_run_world(f.sim, cut_live, &f, &eb) == ERR_OK || sim_was_cut(f.sim));
    if (f.victim != NULL)
        sim_trouble(f.sim, f.victim, &(struct sim_trouble){0});
    f.looks = true;
    sim_cut_at(f.sim, 0);
    CHECK(sim_run_world(f.sim, cut_live, &f, &eb) == ERR_OK);
    if (check_failures_ != before)
        fprintf(stderr, "seed %llu, versioning %d, victim %s, cut at %llu\n",
                (unsigned long long)seed, (int)f.first, f.victim != NULL ? f.victim : "-",
                (unsigned long long)cut);
    sim_free(&f.sim);
    return f;
}

/* Not at all; then, where the end got its answer, at each event of what is done and some behind that. */
static struct cut_life
cut_everywhere(uint64_t seed, struct cut_life f)
{
    struct cut_life all = cut_once(seed, f, 0);

    for (uint64_t cut = all.begun; all.ended && cut <= all.over + 20; cut++)
        (void)cut_once(seed, f, cut);
    return all;
}

/* The power goes at each event of two null versions and the end of the second one. The copy may lose that the first was
 * replaced, and the end: the owner knows of both. */
static void
test_a_replaced_null_version_stays_so_when_its_end_is_cut(void)
{
    for (uint64_t seed = 1; seed <= CUT_SEEDS; seed++)
        for (unsigned i = 0; i < 2; i++) {
            struct cut_life f = {.act = replace_and_end,
                                 .look = look_for_replaced,
                                 .first = i == 0 ? STORE_SUSPENDED : STORE_UNVERSIONED};

            CHECK(cut_everywhere(seed, f).ended);
        }
}

/* One of two copies cannot be written, and never receives a version's tags, which were acknowledged. The power goes at each
 * event of the end of that version: it is there with its tags, or it is gone. */
static void
test_a_version_does_not_come_back_without_its_tags(void)
{
    static const char *const mounts[] = {"/a", "/b"};

    for (uint64_t seed = 1; seed <= CUT_SEEDS; seed++) {
        unsigned tagged = 0;

        for (unsigned i = 0; i < 2; i++) {
            struct cut_life f = {
                .act = tag_and_end, .look = look_for_tags, .victim = mounts[i]};

            f = cut_everywhere(seed, f);
            CHECK(f.tagged == f.ended);
            tagged += f.tagged;
        }
        CHECK_U64(tagged, 1); /* where the victim is the copy, not the owner */
    }
}

/* The same of tags and an end that are under way at once, the end a little behind: tags that were acknowledged are there
 * with their version, or it is gone. */
static void
test_tags_beside_an_end_are_not_taken_back(void)
{
    static const char *const mounts[] = {"/a", "/b"};
    unsigned tagged = 0;

    for (uint64_t seed = 1; seed <= CUT_SEEDS; seed++)
        for (unsigned i = 0; i < 2; i++)
            for (unsigned turns = 0; turns < 2; turns++) {
                struct cut_life f = {.act = tag_beside_end,
                                     .look = look_for_tags,
                                     .victim = mounts[i],
                                     .turns = turns};

                f = cut_everywhere(seed, f);
                tagged += f.tagged && f.ended;
            }
    CHECK(tagged >= CUT_SEEDS); /* where the victim is the copy, not the owner */
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR);
    RUN(test_versions_move_with_one_copy);
    RUN(test_versions_move_with_two_copies);
    RUN(test_versions_that_end_while_a_disk_is_away);
    RUN(test_an_end_that_is_refused_leaves_no_mark);
    RUN(test_a_replaced_null_version_that_was_away);
    log_set_level(LOG_ERROR + 1); /* of disks that fail on purpose */
    RUN(test_a_replaced_null_version_stays_so_when_its_end_is_cut);
    RUN(test_a_version_does_not_come_back_without_its_tags);
    RUN(test_tags_beside_an_end_are_not_taken_back);
    return check_done();
}
