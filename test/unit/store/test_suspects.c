/* One flipped bit, a block of zeros, a cut end, a log that is gone: an acknowledged change that is lost is an error for its key, and never
 * an older answer, a deleted object that returns, or a 404. After a kill, with the index and without it. Protects D1, D7.
 *
 * FOREBAY_ROUNDS=N: rounds of random damage (`make soak` has 300). FOREBAY_SEED=S. */
#include "store/core/core.h"
#include "store/index/suspect.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_read.h"
#include "store/store_rescue.h"
#include "store/store_space.h"
#include "store/store_write.h"
#include "store/wal/log_set.h"
#include "store/wal/wal.h"
#include "store/wal/watermark.h"
#include "world_damage.h"

#define KEYS 40u
#define DATA (700u << 10)
static char *data;

/* What was acknowledged of a key: the write whose bytes it has, or none. */
struct known {
    unsigned from; /* of `data`; 0: there is no object */
    uint64_t len;
};
static struct known known[KEYS];
static uint64_t state;

static uint64_t
draw(uint64_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 20) % below;
}

static const char *
name(unsigned n)
{
    static char text[32];

    snprintf(text, sizeof text, "key-%02u", n);
    return text;
}

static struct store *
open_quiet(bool covers)
{
    struct store_options o = world_options();

    o.segment_bytes = 1u << 20;
    if (!covers)
        o.index_interval_ms = 3600 * 1000; /* the index covers nothing of this life */
    return world_open(&o);
}

static void
put_key(struct store *d, unsigned n, uint64_t len)
{
    struct entry entry;
    unsigned from = 1 + (unsigned)draw(5000);

    CHECK(world_put(d, name(n), data + from, len, &entry) == ERR_OK);
    known[n] = (struct known){from, len};
}

static void
delete_key(struct store *d, unsigned n)
{
    struct store_key k = world_key(7, name(n));
    struct errbuf eb = {0};
    bool existed;

    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK);
    known[n] = (struct known){0};
}

static void
work_some(struct store *d, unsigned ops)
{
    for (unsigned i = 0; i < ops; i++) {
        unsigned n = (unsigned)draw(KEYS);
        uint64_t kind = draw(10);

        if (kind < 3)
            delete_key(d, n);
        else
            put_key(d, n, kind < 8 ? draw(6000) : kind == 8 ? 120000 : 300000);
    }
}

/* As known, or an error; what is not known is neither there nor an older one. Returns how many are errors. */
static unsigned
look_at_all(struct store *d)
{
    unsigned errors = 0;

    for (unsigned n = 0; n < KEYS; n++) {
        const struct known *k = &known[n];
        struct store_key key = world_key(7, name(n));
        struct errbuf eb = {0};
        struct entry entry;
        enum err rc = store_lookup(d, &key, &entry, &eb);

        if (rc != ERR_OK && rc != ERR_NOT_FOUND) {
            errors++;
            continue;
        }
        if ((rc == ERR_OK) != (k->from != 0) || (rc == ERR_OK && entry.size != k->len)) {
            fprintf(stderr, "%s: %s, %llu bytes, not %llu, %s\n", name(n), err_name(rc),
                    (unsigned long long)entry.size, (unsigned long long)k->len,
                    k->from == 0 ? "was deleted" : "is another one");
            CHECK(false);
            continue;
        }
        if (rc == ERR_OK) {
            rc = world_get_damaged(d, name(n), data + k->from, k->len);
            CHECK(rc == ERR_OK || rc == ERR_CORRUPT || rc == ERR_IO);
            errors += rc != ERR_OK;
        }
    }
    return errors;
}

/* A list shows what is there, or is an error. */
static void
list_all(struct store *d, unsigned errors)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    struct store_entry *entries;
    struct errbuf eb = {0};
    uint32_t count, living = 0;
    bool more;
    enum err rc = store_list(d, 7, SPAN(""), true, 1000, a, &entries, &count, &more, &eb);

    for (unsigned n = 0; n < KEYS; n++)
        living += known[n].from != 0;
    CHECK(rc == ERR_OK || (rc == ERR_CORRUPT && errors > 0));
    if (rc == ERR_OK)
        CHECK_U64(count, living);
    arena_free(&a);
}

/* The disk as a kill leaves it: half of the work in the index, half in the logs alone. */
static void
make_killed_disk(unsigned ops)
{
    struct store *d = open_quiet(true);

    memset(known, 0, sizeof known);
    work_some(d, ops);
    store_close(&d);
    d = open_quiet(false);
    work_some(d, ops);
    world_copy();
    store_close(&d);
    world_back_to_copy();
}

/* ---- one bit ---- */

static void
check_says(void *arg, bool fault, const char *sentence)
{
    if (fault && strstr(sentence, "acknowledged change") != NULL)
        ++*(unsigned *)arg;
}

static unsigned
suspects_said(void)
{
    struct store_checked found;
    struct errbuf eb = {0};
    char scratch[300];
    unsigned said = 0;

    snprintf(scratch, sizeof scratch, "%s/..", world_path);
    CHECK(store_check(world_path, scratch, check_says, &said, &found, &eb) == ERR_OK);
    return said;
}

static void
repair_says(void *arg, enum store_says what, const char *sentence)
{
    (void)arg, (void)what, (void)sentence;
}

static void
accept_all(void)
{
    char scratch[300];
    struct store_repair_options o = {.scratch = scratch, .say = repair_says};
    struct store_repaired out;
    struct errbuf eb = {0};

    snprintf(scratch, sizeof scratch, "%s/..", world_path);
    CHECK(store_repair(world_path, &o, &out, &eb) == ERR_OK);
}

/* A header of a put and of a delete that the index does not cover is damaged, in the middle of the log and at its end; with the index
 * and without. Only the one key is an error, until it is written again, or the loss accepted. */
struct one_case {
    bool delete, last, zeros, no_index, accept;
};

static void
damage_one(void *arg)
{
    const struct one_case *c = arg;
    struct store_key k = world_key(7, "victim");
    struct store_condition absent = {.if_absent = true};
    struct errbuf eb = {0};
    struct store *d = open_quiet(true);
    struct entry entry;
    uint64_t at;
    uint32_t log;
    bool existed;
    char zeros[512] = {0};
    int fd;

    CHECK(world_put(d, "victim", data + 1, 100, &entry) == ERR_OK);
    CHECK(world_put(d, "other", data + 2, 100, &entry) == ERR_OK);
    store_close(&d);
    d = open_quiet(false);
    CHECK(world_put(d, "before", data + 3, 100, &entry) == ERR_OK);
    at = d->wals->of[STORE_NATIVE].now->owner.used;
    log = d->wals->of[STORE_NATIVE].now->id;
    if (c->delete)
        CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK);
    else
        CHECK(world_put(d, "victim", data + 7, 100, &entry) == ERR_OK);
    if (!c->last)
        CHECK(world_put(d, "behind", data + 4, 100, &entry) == ERR_OK);
    world_copy();
    store_close(&d);
    world_back_to_copy();
    fd = world_file("native/log-%06u.tar", log);
    if (c->zeros)
        CHECK(pwrite(fd, zeros, sizeof zeros, (off_t)at + 512) == sizeof zeros);
    else
        world_flip(fd, (at + 600) * 8 + 2);
    close(fd);
    if (c->no_index)
        world_lose_index();
    CHECK_U64(suspects_said(), 1);
    d = open_quiet(true);
    CHECK(store_lookup(d, &k, &entry, &eb) == ERR_CORRUPT);
    CHECK(world_get_damaged(d, "other", data + 2, 100) == ERR_OK);
    CHECK(world_get_damaged(d, "before", data + 3, 100) == ERR_OK);
    if (!c->last)
        CHECK(world_get_damaged(d, "behind", data + 4, 100) == ERR_OK);
    CHECK(world_put(d, "later", data + 5, 100, &entry) == ERR_OK);
    store_close(&d);
    CHECK_U64(suspects_said(), 1); /* the index covers it now */
    if (c->accept)
        accept_all();
    d = open_quiet(true);
    CHECK(store_lookup(d, &k, &entry, &eb) == (c->accept ? ERR_OK : ERR_CORRUPT));
    if (!c->accept) {
        CHECK(world_put_class(d, STORE_NATIVE, "victim", data, 5, true, &absent,
                              &entry) == ERR_CORRUPT);
        CHECK(world_put(d, "victim", data + 9, 200, &entry) == ERR_OK);
        CHECK(world_get_damaged(d, "victim", data + 9, 200) == ERR_OK);
    }
    store_close(&d);
    CHECK_U64(suspects_said(), 0);
    world_lose_index();
    d = open_quiet(true);
    CHECK(world_get_damaged(d, "later", data + 5, 100) == ERR_OK);
    CHECK(world_get_damaged(d, "victim", c->accept ? data + 1 : data + 9,
                            c->accept ? 100 : 200) == ERR_OK);
    store_close(&d);
}

static void
test_one_damaged_header(void)
{
    for (unsigned i = 0; i < 32; i++) {
        struct one_case c = {.delete = i % 2 != 0,
                             .last = i / 2 % 2 != 0,
                             .zeros = i / 4 % 2 != 0,
                             .no_index = i / 8 % 2 != 0,
                             .accept = i / 16 % 2 != 0};

        world_run(damage_one, &c);
    }
}

/* ---- random damage ---- */

static unsigned
files_of(const char *folder, char names[][64], unsigned room)
{
    char path[400];
    struct dirent *e;
    unsigned count = 0;
    DIR *dir;

    snprintf(path, sizeof path, "%s/%s", world_path, folder);
    dir = opendir(path);
    while (dir != NULL && (e = readdir(dir)) != NULL && count < room)
        if (e->d_name[0] != '.' && strlen(e->d_name) < 30)
            snprintf(names[count++], 64, "%s/%.40s", folder, e->d_name);
    if (dir != NULL)
        closedir(dir);
    return count;
}

/* A bit, a block of 512 zeros, or (of a log) 64 KiB off its end. */
static void
damage_some_file(void)
{
    char names[64][64];
    bool state_file = draw(5) == 0;
    unsigned count = files_of(state_file     ? ".forebay"
                              : draw(8) == 0 ? "index"
                                             : "native",
                              names, ARRAY_LEN(names));
    const char *chosen = names[draw(count)];
    char zeros[512] = {0};
    struct stat st;
    uint64_t used, what = draw(6);
    int fd = world_file("%s", chosen);

    CHECK(fstat(fd, &st) == 0);
    used = (uint64_t)st.st_size;
    if (used > 200000 && draw(3) != 0)
        used = 200000; /* files are allocated ahead */
    if (used < 1024 || what < 4)
        world_flip(fd, draw(MAX(used, 1u) * 8));
    else if (what == 4)
        CHECK(pwrite(fd, zeros, sizeof zeros, (off_t)align_down(draw(used - 512), 512)) ==
              sizeof zeros);
    else if (strncmp(chosen, "native/log", 10) == 0)
        CHECK(ftruncate(fd, st.st_size > 65536 ? st.st_size - 65536 : 0) == 0);
    close(fd);
}

static void
round_of_damage(void *arg)
{
    struct store_options o;
    struct store *d = NULL;
    struct errbuf eb = {0};
    unsigned errors;

    (void)arg;
    make_killed_disk(10 + (unsigned)draw(30));
    damage_some_file();
    if (draw(2) == 0)
        world_lose_index();
    o = world_options();
    o.segment_bytes = 1u << 20;
    if (store_open(world_path, &o, &d, &eb) != ERR_OK)
        return; /* an error is right */
    errors = look_at_all(d);
    list_all(d, errors);
    store_close(&d);
    d = open_quiet(true);
    errors = look_at_all(d);
    if (store_accepts_writes(d) && errors == 0)
        work_some(d, 10);
    (void)look_at_all(d);
    store_close(&d);
}

static void
test_rounds_of_damage(void)
{
    const char *rounds = getenv("FOREBAY_ROUNDS"), *seed = getenv("FOREBAY_SEED");
    unsigned count = rounds != NULL ? (unsigned)atoi(rounds) : 20;
    uint64_t first = seed != NULL ? strtoull(seed, NULL, 10) : rt_wall_ns() % 1000000;

    for (unsigned i = 0; i < count; i++) {
        fprintf(stderr, "seed %llu\n", (unsigned long long)(first + i));
        state = first + i;
        world_run(round_of_damage, NULL);
    }
}

/* ---- a log that is gone ---- */

static void
log_gone(void *arg)
{
    bool no_index = *(unsigned *)arg % 2 != 0, latest = *(unsigned *)arg / 2 != 0;
    char names[64][64], text[900];
    struct store_health h;
    struct store *d;
    struct errbuf eb = {0};
    struct entry entry;
    unsigned count, chosen = 0, errors;

    fprintf(stderr, "case %u\n", *(unsigned *)arg);
    state = 77;
    make_killed_disk(60);
    count = files_of("native", names, ARRAY_LEN(names));
    for (unsigned i = 0; i < count; i++) {
        bool log = strncmp(names[i], "native/log", 10) == 0,
             better = latest ? strcmp(names[i], names[chosen]) > 0
                             : strcmp(names[i], names[chosen]) < 0;

        if (log && (strncmp(names[chosen], "native/log", 10) != 0 || better))
            chosen = i;
    }
    if (latest) /* the spare is not missed */
        for (;;) {
            struct log_set set;
            struct rt_dir *dir = NULL;
            bool named = false;

            snprintf(text, sizeof text, "%s/.forebay", world_path);
            CHECK(rt_dir_open(text, &dir, &eb) == ERR_OK);
            CHECK(log_set_load(dir, &set, &eb) == ERR_OK);
            for (uint32_t i = 0; i < set.count; i++) {
                snprintf(text, sizeof text, "native/log-%06u.tar", set.at[i].segment);
                named |= strcmp(text, names[chosen]) == 0;
            }
            if (!named) {
                CHECK(set.count > 0);
                snprintf(names[chosen], 64, "native/log-%06u.tar",
                         set.at[set.count - 1].segment);
            }
            log_set_fini(&set);
            rt_dir_close(&dir);
            break;
        }
    snprintf(text, sizeof text, "mv %s/%s %s.log", world_path, names[chosen], world_path);
    CHECK(system(text) == 0);
    if (no_index)
        world_lose_index();
    for (unsigned i = 0; i < 2;
         i++) { /* the second start knows what the first one found */
        d = open_quiet(true);
        store_health(d, &h);
        CHECK(h.state == STORE_READ_ONLY);
        CHECK(strstr(h.why, names[chosen] + 7) != NULL);
        errors = look_at_all(d);
        list_all(d, errors);
        CHECK(world_put(d, "new", data, 10, &entry) != ERR_OK);
        CHECK(store_compact(d, &eb) == ERR_OK);
        (void)look_at_all(d);
        store_close(&d);
    }
    snprintf(text, sizeof text, "mv %s.log %s/%s", world_path, world_path, names[chosen]);
    CHECK(system(text) == 0);
    d = open_quiet(true);
    CHECK_U64(look_at_all(d), 0);
    list_all(d, 0);
    CHECK(world_put(d, "new", data, 10, &entry) == ERR_OK);
    store_close(&d);
    world_check_sound();
}

static void
test_a_log_is_gone_and_comes_back(void)
{
    for (unsigned i = 0; i < 4; i++)
        world_run(log_gone, &i);
}

/* ---- the files ---- */

static void
test_watermark_reads_back(void)
{
    struct watermark *w = watermark_new(), *r = watermark_new();
    char *slot = malloc(WATERMARK_SLOT), keys[3 * SUSPECT_ENTRY_BYTES];
    size_t len;

    w->whole_from = 1;
    for (uint64_t batch = 1; batch < 200; batch++) {
        for (unsigned i = 0; i < 3; i++)
            suspect_put(keys + i * SUSPECT_ENTRY_BYTES, batch * 10 + i, 7);
        watermark_add(w, batch, (struct span){keys, sizeof keys});
        w->batch = batch;
    }
    CHECK(watermark_knows(w, 199) && watermark_knows(w, 190) && !watermark_knows(w, 100));
    len = watermark_encode(w, slot);
    CHECK(watermark_decode((struct span){slot, len}, r));
    CHECK(r->batch == 199 && r->count == w->count && r->whole_from == w->whole_from);
    for (size_t at = 0; at < 64 + r->count * 20; at++) {
        slot[at] = (char)(slot[at] ^ 4);
        CHECK(!watermark_decode((struct span){slot, len}, r));
        slot[at] = (char)(slot[at] ^ 4);
    }
    free(slot);
    watermark_free(&w);
    watermark_free(&r);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(getenv("V") != NULL ? LOG_DEBUG : LOG_ERROR + 1);
    data = malloc(DATA);
    world_fill(data, DATA, 4);
    RUN(test_watermark_reads_back);
    RUN(test_one_damaged_header);
    RUN(test_a_log_is_gone_and_comes_back);
    RUN(test_rounds_of_damage);
    free(data);
    return check_done();
}
