/* Tail and index together against a plain model: random changes of random keys (short, and around every edge of a
 * layer), batches, reopening. After every step a lookup and a listing say what the model says. */
#include "base/mem.h"
#include "scratch.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/memtable.h"
#include "store/index/run.h"
#include "store/record/keys.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_upload.h"

#define BUCKETS 3
#define KEYS    400

struct name {
    char bytes[STORE_KEY_MAX];
    size_t len;
};
static struct name names[KEYS];           /* ascending, no two alike */
static struct entry model[BUCKETS][KEYS]; /* the truth */
static bool living[BUCKETS][KEYS];
static uint64_t counter;
static bool busy;      /* changes arrive by themselves */
static bool replaying; /* as during replay: no client waits */

/* The system under test. */
static struct rt_dir *dir;
static struct memtable *memtable;
static struct index *idx;
static struct index_options options;
static struct index_checkpoint checkpoint;

static int
compare_names(const void *a, const void *b)
{
    const struct name *x = a, *y = b;

    return span_cmp((struct span){x->bytes, x->len}, (struct span){y->bytes, y->len});
}

static void
make_names(void)
{
    static const size_t lengths[] = {1,   2,   3,    100,  498,  499,  500, 501,
                                     502, 999, 1000, 1001, 1022, 1023, 1024};
    unsigned count = 0;

    while (count < KEYS) {
        struct name *n = &names[count];
        bool known = false;

        n->len = lengths[scratch_random() % ARRAY_LEN(lengths)];
        memset(n->bytes, 'm', n->len); /* long common prefixes ... */
        for (unsigned k = 0; k < 2;
             k++) /* ... that part anywhere, at the edges of layers above all */
            n->bytes[(scratch_random() % 3 == 0 ? scratch_random()
                                                : n->len - 1 - scratch_random() % 3) %
                     n->len] = (char)scratch_random();
        for (unsigned i = 0; i < count; i++)
            known |= compare_names(n, &names[i]) == 0;
        count += !known;
    }
    qsort(names, KEYS, sizeof names[0], compare_names);
}

static struct span
name(unsigned i)
{
    return (struct span){names[i].bytes, names[i].len};
}

static bool
same(const struct entry *a, const struct entry *b)
{
    return a->version.counter == b->version.counter && a->size == b->size &&
           a->flags == b->flags &&
           memcmp(&a->content, &b->content, sizeof a->content) == 0 &&
           a->mtime_ms == b->mtime_ms;
}

/* A commit batch: up to 20 puts and deletions. */
static void
change(void)
{
    struct run *r = run_new();

    for (uint64_t n = scratch_random() % 20 + 1; n > 0; n--) {
        unsigned b = (unsigned)(scratch_random() % BUCKETS),
                 k = (unsigned)(scratch_random() % KEYS);
        bool put = scratch_random() % 5 < 3;
        struct entry entry;

        counter++;
        entry = (struct entry){.flags = !put               ? ENTRY_TOMBSTONE
                                        : counter % 2 == 0 ? ENTRY_PLAIN | ENTRY_INLINE
                                                           : ENTRY_PLAIN,
                               .version = {1, counter},
                               .content = content_id_of(1, 1, counter),
                               .size = put ? counter * 10 : 0,
                               .mtime_ms = (int64_t)counter,
                               .place.segment = 1 + (uint32_t)(counter / 500),
                               .place.offset = counter * 512};

        run_object(r, b + 1, name(k), &entry);
        model[b][k] = entry;
        living[b][k] = put;
    }
    memtable_push(memtable, &r);
}

static void
flush(void)
{
    struct frozen_runs b;
    struct errbuf eb = {0};

    if (!memtable_freeze(memtable, &b))
        return;
    if (busy && scratch_random() % 2 == 0)
        change(); /* arrives while the batch is written */
    checkpoint.log[0].batch++;
    checkpoint.log[1].offset += 77;
    REQUIRE(memtable_sort_frozen(memtable, &b) == ERR_OK);
    REQUIRE(index_apply(idx, &b, &checkpoint, &eb) == ERR_OK);
    memtable_drop(memtable, &b);
}

static void
flush_all(void)
{
    while (memtable_count(memtable) > 0)
        flush();
}

static void
reopen(void)
{
    struct index_checkpoint found;
    enum index_state state;
    struct errbuf eb = {0};

    flush_all();
    index_close(&idx);
    REQUIRE(index_open(&options, &idx, &state, &found, &eb) == ERR_OK);
    CHECK(state == INDEX_GOOD);
    CHECK_U64(found.log[0].batch, checkpoint.log[0].batch);
    CHECK_U64(found.log[1].offset, checkpoint.log[1].offset);
}

/* What is remembered of small plain objects: another key with the same hash is as good as impossible among so few. */
static void
check_now(unsigned b, unsigned k)
{
    const struct entry *want = &model[b][k];
    struct entry entry;
    struct index_want wanted = {0};
    enum err rc = find_object_now(memtable, idx, b + 1, name(k), &wanted, &entry, NULL);

    if (rc == ERR_BUSY)
        return;
    CHECK(rc == (living[b][k] ? ERR_OK : ERR_NOT_FOUND));
    CHECK(rc != ERR_OK ||
          (entry.flags == want->flags && entry.size == want->size &&
           entry.place.segment == want->place.segment &&
           entry.place.offset == want->place.offset && entry.mtime_ms == want->mtime_ms &&
           memcmp(&entry.content, &want->content, sizeof entry.content) == 0 &&
           memcmp(entry.md5, want->md5, sizeof entry.md5) == 0));
}

static void
check_lookups(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned b = (unsigned)(scratch_random() % BUCKETS),
                 k = (unsigned)(scratch_random() % KEYS);
        struct errbuf eb = {0};
        struct entry entry;
        enum err rc = find_object(memtable, idx, b + 1, name(k), false, &entry, &eb);

        CHECK(rc == (living[b][k] ? ERR_OK : ERR_NOT_FOUND));
        CHECK(rc != ERR_OK || same(&entry, &model[b][k]));
        check_now(b, k);
    }
}

/* One page from a random place. */
static void
check_page(struct arena *a)
{
    unsigned b = (unsigned)(scratch_random() % BUCKETS),
             k = (unsigned)(scratch_random() % KEYS);
    bool inclusive = scratch_random() % 2 == 0;
    uint32_t max =
                 (uint32_t)(scratch_random() % 3 == 0 ? 1000 : scratch_random() % 20 + 1),
             count;
    struct span after = scratch_random() % 10 == 0 ? SPAN("") : name(k);
    struct store_entry *entries;
    struct errbuf eb = {0};
    uint32_t at = 0;
    bool more, more_wanted = false;

    arena_reset(a);
    if (after.len > 3 && scratch_random() % 4 == 0)
        after.len -= scratch_random() % 3; /* perhaps an unused name */
    REQUIRE(list_objects(memtable, idx, b + 1, after, inclusive, max, a, &entries, &count,
                         &more, &eb) == ERR_OK);
    for (k = 0; k < KEYS; k++) {
        int c = span_cmp(name(k), after);

        if (!living[b][k] || c < 0 || (c == 0 && !inclusive))
            continue;
        if (at == max) {
            more_wanted = true;
            break;
        }
        REQUIRE(at < count);
        CHECK(span_eq(entries[at].key, name(k)));
        CHECK(same(&entries[at].entry, &model[b][k]));
        at++;
    }
    CHECK_U64(count, at);
    CHECK(more == more_wanted);
}

static void
open_all(uint64_t memory_bytes)
{
    enum index_state state;
    struct errbuf eb = {0};

    memset(living, 0, sizeof living);
    checkpoint = (struct index_checkpoint){0};
    REQUIRE(rt_dir_open(scratch_path, &dir, &eb) == ERR_OK);
    options = (struct index_options){.dir = dir,
                                     .disk_id = "a disk",
                                     .map_bytes = MIB(256),
                                     .memory_bytes = memory_bytes};
    memtable = memtable_new();
    REQUIRE(index_open(&options, &idx, &state, &checkpoint, &eb) == ERR_OK);
    CHECK(state == INDEX_EMPTY);
}

static void
close_all(void)
{
    index_close(&idx);
    memtable_free(&memtable);
    rt_dir_close(&dir);
}

static void
check_objects_are_counted(void)
{
    struct index_stat stat;
    uint64_t want = 0;

    for (unsigned b = 0; b < BUCKETS; b++)
        for (unsigned k = 0; k < KEYS; k++)
            want += living[b][k];
    index_stat(idx, &stat);
    CHECK_U64(stat.objects, want);
}

static void
check_segments_are_counted(void)
{
    int64_t living_bytes[128] = {0};

    for (unsigned b = 0; b < BUCKETS; b++)
        for (unsigned k = 0; k < KEYS; k++)
            if (living[b][k])
                living_bytes[model[b][k].place.segment] += entry_weight(&model[b][k]);
    for (uint32_t s = 0; s < ARRAY_LEN(living_bytes); s++) {
        struct index_segment seen;
        struct errbuf eb = {0};
        enum err rc = index_segment(idx, STORE_NATIVE, s, &seen, &eb);

        CHECK(rc == ERR_OK || rc == ERR_NOT_FOUND);
        CHECK(seen.living == living_bytes[s]);
        CHECK(seen.dead >= 0);
    }
}

static void
on_usage(void *arg, const struct index_usage *u)
{
    struct index_usage *seen = arg;

    REQUIRE(u->bucket < 64);
    seen[u->bucket] = *u;
}

static void
check_buckets_are_counted(void)
{
    struct index_usage seen[64] = {0};
    struct errbuf eb = {0};

    REQUIRE(index_usage(idx, on_usage, seen, &eb) == ERR_OK);
    for (unsigned b = 0; b < BUCKETS; b++) {
        int64_t objects = 0, bytes = 0;

        for (unsigned k = 0; k < KEYS; k++) {
            objects += living[b][k];
            bytes += living[b][k] ? (int64_t)model[b][k].size : 0;
        }
        CHECK(seen[b + 1].objects == objects && seen[b + 1].bytes == bytes);
    }
}

static void
random_steps(void *arg)
{
    uint64_t memory_bytes = *(uint64_t *)arg;
    struct arena *a = arena_new(KIB(64), MIB(16));

    open_all(memory_bytes);
    if (replaying)
        memtable_replaying(memtable, true);
    busy = true;
    for (unsigned step = 0; step < 1500; step++) {
        if (replaying && step % 3 == 0)
            rt_yield();
        switch (scratch_random() % (replaying ? 60 : 8)) {
        case 0:
            flush();
            break;
        case 1:
            if (scratch_random() % 10 == 0) {
                reopen();
                check_objects_are_counted();
                check_segments_are_counted();
                check_buckets_are_counted();
            }
            break;
        default:
            change();
            break;
        }
        check_lookups(5);
        if (step % 3 == 0)
            check_page(a);
    }
    busy = false;
    arena_free(&a);
    if (replaying)
        memtable_replaying(memtable, false);
    close_all();
}

/* Runs are merged by the pool meanwhile, also while they go into the index. */
static void
test_random_changes_replaying(void)
{
    uint64_t memory = 0;

    replaying = true;
    scratch_run(1, random_steps, &memory);
    replaying = false;
}

static void
test_random_changes(void)
{
    uint64_t memory = 0;

    make_names();
    scratch_run(1, random_steps, &memory);
}

/* Larger than it may be in memory: every read goes by the pool. */
static void
test_random_changes_not_resident(void)
{
    uint64_t memory = 1;

    scratch_run(1, random_steps, &memory);
}

/* Everything deleted: no layer stays behind. */
static void
delete_everything(void *arg)
{
    struct errbuf eb = {0};
    bool empty;

    (void)arg;
    open_all(0);
    for (unsigned k = 0; k < KEYS; k++) {
        struct run *r = run_new();
        struct entry entry = {.version = {1, ++counter}};

        run_object(r, 1, name(k), &entry);
        memtable_push(memtable, &r);
    }
    flush_all();
    CHECK(list_bucket_empty(memtable, idx, 1, &empty, &eb) == ERR_OK && !empty);
    CHECK(list_bucket_empty(memtable, idx, 2, &empty, &eb) == ERR_OK && empty);
    for (unsigned k = 0; k < KEYS; k++) {
        struct run *r = run_new();
        struct entry entry = {.version = {1, ++counter}, .flags = ENTRY_TOMBSTONE};

        run_object(r, 1, name(k), &entry);
        memtable_push(memtable, &r);
    }
    CHECK(list_bucket_empty(memtable, idx, 1, &empty, &eb) == ERR_OK && empty);
    flush_all();
    CHECK(list_bucket_empty(memtable, idx, 1, &empty, &eb) == ERR_OK && empty);
    for (unsigned k = 0; k < KEYS; k++) {
        unsigned char value[VALUE_CODED_MAX];
        size_t len;

        CHECK(index_find(idx, TABLE_OBJECTS, 1, name(k), NULL, value, &len, &eb) ==
              ERR_NOT_FOUND);
    }
    close_all();
}

static void
test_delete_everything(void)
{
    scratch_run(1, delete_everything, NULL);
}

/* Replay brings changes of two logs in any order: the highest version wins, wherever the lower one is. */
static void
older_versions_lose(void *arg)
{
    static const struct {
        uint64_t first, second;
        bool flush_between;
    } rows[] = {{2, 1, false}, {2, 1, true}, {1, 2, false}, {1, 2, true}};
    struct errbuf eb = {0};

    (void)arg;
    open_all(0);
    options.keep_tombstones = true;
    for (unsigned i = 0; i < ARRAY_LEN(rows); i++) {
        struct entry found;

        for (unsigned turn = 0; turn < 2; turn++) {
            struct run *r = run_new();
            struct entry entry = {
                .version = {1, turn == 0 ? rows[i].first : rows[i].second}};

            run_object(r, 1, name(i), &entry);
            memtable_push(memtable, &r);
            if (turn == 0 && rows[i].flush_between)
                flush_all();
        }
        flush_all();
        CHECK(find_object(memtable, idx, 1, name(i), true, &found, &eb) == ERR_OK);
        CHECK_U64(found.version.counter, 2);
    }
    close_all();
}

static void
test_older_versions_lose(void)
{
    scratch_run(1, older_versions_lose, NULL);
}

static void
keep_file(const char *from, const char *to)
{
    char command[300];

    snprintf(command, sizeof command, "cp '%s/index/%s' '%s/index/%s'", scratch_path,
             from, scratch_path, to);
    CHECK(system(command) == 0);
}

static void
states_at_open(void *arg)
{
    struct errbuf eb = {0};
    enum index_state state;
    struct index_checkpoint found;
    struct entry entry;

    (void)arg;
    open_all(0);
    change();
    flush_all();
    index_set_bad(idx); /* remembered with the next batch */
    CHECK(index_is_bad(idx));
    change();
    flush_all();
    keep_file("data.mdb", "kept"); /* as a kill leaves it */
    index_close(&idx);
    keep_file("kept", "data.mdb");
    REQUIRE(index_open(&options, &idx, &state, &found, &eb) == ERR_OK);
    CHECK(state == INDEX_BAD);
    CHECK_U64(found.log[0].batch, 0);
    CHECK(!index_is_bad(idx));

    checkpoint.log[0].batch = 5;
    change();
    flush_all();
    index_close(&idx);
    memcpy(options.disk_id, "another", 7);
    REQUIRE(index_open(&options, &idx, &state, &found, &eb) == ERR_OK);
    CHECK(state == INDEX_FOREIGN);
    CHECK_U64(found.log[0].batch, 0);

    change();
    flush_all();
    REQUIRE(index_reset(idx, &eb) == ERR_OK);
    for (unsigned k = 0; k < KEYS; k++)
        CHECK(find_object(memtable, idx, 1, name(k), false, &entry, &eb) ==
              ERR_NOT_FOUND);
    change();
    flush_all();
    close_all();
}

static void
test_states_at_open(void)
{
    scratch_run(1, states_at_open, NULL);
}

/* ---- multipart ---- */

static struct upload_id
upload(unsigned n)
{
    return (struct upload_id){content_id_of(1, 1, n + 1)};
}

static void
multipart(void *arg)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    struct errbuf eb = {0};
    struct list_part *parts;
    struct store_upload *uploads;
    struct upload_entry begun;
    struct done_entry done;
    struct part_entry part;
    char key[STORE_KEY_MAX];
    uint32_t count;
    bool more;

    (void)arg;
    open_all(0);
    for (unsigned round = 0; round < 3;
         round++) { /* all in the memtable; half; all in the index */
        unsigned first = round * 10;
        struct run *r = run_new();

        for (unsigned u = first; u < first + 4; u++) { /* two keys, two uploads each */
            struct upload_id id = upload(u);
            struct upload_entry entry = {.begun_ms = u, .segment = 3, .offset = 4096};

            run_upload(r, 9, name(u / 2), &id, &entry);
            for (unsigned p = 1; p <= 300; p++) {
                struct part_entry pr = {.entry = {.size = p, .version = {1, p}}};

                run_part(r, &id, p, &pr);
            }
        }
        memtable_push(memtable, &r);
        if (round > 0)
            flush_all();
        struct upload_id gone = upload(first + 1), finished = upload(first + 2),
                         open_one = upload(first + 3);
        struct done_entry d = {.bucket = 9,
                               .key = name((first + 2) / 2),
                               .completed_ms = INT64_MAX / 2,
                               .entry = {.size = 5}};

        r = run_new();
        run_upload(r, 9, name((first + 1) / 2), &gone, NULL);
        run_upload(r, 9, name((first + 2) / 2), &finished, NULL);
        run_done(r, &finished, &d);
        run_part(r, &open_one, 300, NULL);
        memtable_push(memtable, &r);
        if (round > 1)
            flush_all();

        CHECK(find_upload(memtable, idx, 9, name((first + 1) / 2), &gone, &begun, &eb) ==
              ERR_NO_UPLOAD);
        CHECK(find_upload(memtable, idx, 9, name((first + 3) / 2), &open_one, &begun,
                          &eb) == ERR_OK);
        CHECK(begun.begun_ms == first + 3);
        CHECK(find_upload(memtable, idx, 9, name(first / 2 + 5), &open_one, &begun,
                          &eb) == ERR_NO_UPLOAD);
        CHECK(find_part(memtable, idx, &open_one, 299, &part, &eb) == ERR_OK &&
              part.entry.size == 299);
        CHECK(find_part(memtable, idx, &open_one, 300, &part, &eb) == ERR_NO_UPLOAD);
        CHECK(find_done(memtable, idx, &finished, key, &done, &eb) == ERR_OK);
        CHECK(span_eq(done.key, d.key) && done.entry.size == 5 && done.bucket == 9);
        CHECK(find_done(memtable, idx, &gone, key, &done, &eb) == ERR_NO_UPLOAD);

        arena_reset(a);
        CHECK(list_parts(memtable, idx, &open_one, 10, 1000, a, &parts, &count, &more,
                         &eb) == ERR_OK);
        CHECK(count == 289 && !more && parts[0].number == 11 && parts[288].number == 299);
        CHECK(list_parts(memtable, idx, &open_one, 0, 7, a, &parts, &count, &more, &eb) ==
              ERR_OK);
        CHECK(count == 7 && more && parts[6].part.entry.size == 7);
        if (round == 2) { /* the index has swept what ended */
            CHECK(list_parts(memtable, idx, &gone, 0, 10, a, &parts, &count, &more,
                             &eb) == ERR_OK);
            CHECK_U64(count, 0);
        }
        CHECK(list_uploads(memtable, idx, 9, LIST_ALL, name(first / 2), NULL, 10, a,
                           &uploads, &count, &more, &eb) == ERR_OK);
        CHECK(count == 1 && !more &&
              memcmp(&uploads[0].id, &open_one, sizeof open_one) == 0);
        CHECK(uploads[0].begun_ms == first + 3 &&
              span_eq(uploads[0].key, name((first + 3) / 2)));
    }
    arena_reset(a);
    CHECK(list_uploads(memtable, idx, 9, LIST_ALL, SPAN(""), NULL, 3, a, &uploads, &count,
                       &more, &eb) == ERR_OK);
    CHECK(count == 3 && more);
    struct upload_id last = uploads[2].id;
    CHECK(list_uploads(memtable, idx, 9, LIST_ALL, uploads[2].key, &last, 10, a, &uploads,
                       &count, &more, &eb) == ERR_OK);
    CHECK(count == 3 && !more);
    arena_free(&a);
    close_all();
}

static void
test_multipart(void)
{
    scratch_run(1, multipart, NULL);
}

/* Proofs in pieces of a page or two, with a batch between any two of them that puts, replaces and removes keys on both sides of
 * where the proof stands: what was written is proven each time. Protects I5. */
static void
proofs_beside_a_writer(void *arg)
{
    struct errbuf eb = {0};
    unsigned pieces = 0;

    (void)arg;
    open_all(0);
    for (unsigned i = 0; i < 200; i++)
        change();
    flush_all();
    for (unsigned proof = 0; proof < 20; proof++) {
        bool over = false;
        uint64_t bytes;

        index_prove_piece = 1 + proof % 3;
        index_prove_begin(idx, NULL);
        for (; !over; pieces++) {
            change();
            flush();
            if (index_prove_some(idx, &bytes, &over, &eb) != ERR_OK) {
                CHECK_STR(eb.text, "");
                break;
            }
        }
        index_prove_end(idx);
        CHECK(over && index_verify(idx, NULL, NULL, &eb) == ERR_OK);
    }
    CHECK(pieces > 20 * 20);
    CHECK(index_trust(idx) == STORE_INDEX_PROVEN);
    index_prove_piece = 256;
    close_all();
}

static void
test_proofs_beside_a_writer(void)
{
    scratch_run(1, proofs_beside_a_writer, NULL);
}

/* One that is marked by the file beside it is not believed, nor is it by the next open; the new one is. */
static void
marked_as_bad(void *arg)
{
    struct index_checkpoint found;
    struct errbuf eb = {0};
    enum index_state state;

    (void)arg;
    open_all(0);
    change();
    flush_all();
    for (unsigned i = 0; i < 3; i++) {
        index_close(&idx);
        if (i == 1) {
            struct rt_dir *folder;

            REQUIRE(rt_dir_open_at(dir, "index", &folder, &eb) == ERR_OK);
            REQUIRE(rt_file_store(folder, "damaged", "x", 1, 0600, &eb) == ERR_OK);
            rt_dir_close(&folder);
            options.read_only = true;
            REQUIRE(index_open(&options, &idx, &state, &found, &eb) == ERR_OK);
            CHECK(idx == NULL && state == INDEX_BAD);
            options.read_only = false;
        }
        REQUIRE(index_open(&options, &idx, &state, &found, &eb) == ERR_OK);
        CHECK(state == (i == 1 ? INDEX_BAD : INDEX_GOOD));
        CHECK(index_trust(idx) == (i == 1 ? STORE_INDEX_PROVEN : STORE_INDEX_UNPROVEN));
    }
    close_all();
}

static void
test_marked_as_bad(void)
{
    scratch_run(1, marked_as_bad, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    make_names();
    RUN(test_random_changes);
    RUN(test_random_changes_not_resident);
    RUN(test_random_changes_replaying);
    RUN(test_delete_everything);
    RUN(test_older_versions_lose);
    RUN(test_states_at_open);
    RUN(test_multipart);
    RUN(test_proofs_beside_a_writer);
    RUN(test_marked_as_bad);
    return check_done();
}
