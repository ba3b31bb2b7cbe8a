/* `disk check` finds what is wrong, says where, and changes nothing. Damage is made in the files of a closed disk: one
 * bit at a time, in every kind of place; then the bit is put back. Protects I2 and O4. */
#include "world_damage.h"

#include "base/mem.h"

#define BIG (600u << 10)
static char *data;

struct findings {
    char first[512];
    unsigned faults, notes;
};

static void
on_finding(void *arg, bool fault, const char *sentence)
{
    struct findings *h = arg;

    if (h->faults + h->notes == 0 || (fault && h->faults == 0))
        snprintf(h->first, sizeof h->first, "%s", sentence);
    if (fault)
        h->faults++;
    else
        h->notes++;
}

static struct findings
check(struct store_checked *out)
{
    struct findings h = {0};
    struct errbuf eb = {0};
    char scratch[256];
    enum err rc;

    snprintf(scratch, sizeof scratch, "%.*s", (int)(strlen(world_path) - 5), world_path);
    rc = store_check(world_path, scratch, on_finding, &h, out, &eb);
    if (rc != ERR_OK)
        snprintf(h.first, sizeof h.first, "%s: %s", err_name(rc), eb.text);
    if (rc != ERR_OK)
        h.faults++;
    CHECK_U64(out->faults, rc == ERR_OK ? h.faults : 0);
    return h;
}

static void
part(struct store *d, const struct store_key *k, const struct upload_id *id,
     uint32_t number, uint64_t size)
{
    struct object_meta meta = {.mtime_ms = 1700000000000};
    struct store_writer *w;
    struct errbuf eb = {0};

    REQUIRE(store_part_begin(d, k, id, number, size, &w, &eb) == ERR_OK);
    CHECK(store_write(w, data, size, &eb) == ERR_OK);
    CHECK(store_part_commit(&w, &meta, &eb) == ERR_OK);
}

static void
uploads(struct store *d)
{
    struct store_key k = world_key(7, "multi");
    struct object_meta meta = {.mtime_ms = 1700000000000};
    struct arena *a = arena_new(4096, MIB(1));
    struct upload_id id;
    struct store_part *parts;
    struct errbuf eb = {0};
    struct entry entry;
    uint32_t count;
    bool more;

    CHECK(store_upload_begin(d, &k, STORE_NATIVE, &meta, &id, &eb) == ERR_OK);
    part(d, &k, &id, 1, 300000);
    part(d, &k, &id, 2, 5000);
    part(d, &k, &id, 2, 6000);
    CHECK(store_part_list(d, &k, &id, 0, 10, a, &parts, &count, &more, &eb) == ERR_OK);
    CHECK(store_upload_complete(d, &k, &id, parts, count, &meta, NULL, &entry, &eb) ==
          ERR_OK);
    CHECK(store_upload_begin(d, &k, STORE_NATIVE, &meta, &id, &eb) == ERR_OK);
    part(d, &k, &id, 9, 7000);
    arena_free(&a);
}

/* A disk with some of everything, closed: its index covers its logs. */
static void
make_disk(void)
{
    struct store_options o = world_options();
    struct store_key k = world_key(7, "small-3");
    struct store *d;
    struct errbuf eb = {0};
    struct entry entry;
    char key[STORE_KEY_MAX + 1] = "";
    bool existed;

    /* Written once, at the end: no page of it is one that was aborted. */
    o.index_interval_ms = PATIENCE_MS;
    REQUIRE(store_open(world_path, &o, &d, &eb) == ERR_OK);
    for (unsigned i = 0; i < 40; i++) {
        snprintf(key, sizeof key, "small-%u", i % 30);
        CHECK(world_put(d, key, data + i, 100 * i, &entry) == ERR_OK);
    }
    memset(key, 'l', STORE_KEY_MAX);
    CHECK(world_put(d, key, data, 20000, &entry) == ERR_OK);
    CHECK(world_put(d, "big", data, BIG, &entry) == ERR_OK);
    CHECK(world_put(d, "big-2", data, 400000, &entry) == ERR_OK);
    CHECK(world_put_class(d, STORE_CACHED, "cached", data, 3000, true, NULL, &entry) ==
          ERR_OK);
    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK && existed);
    uploads(d);
    store_close(&d);
}

static void
clean(void *arg)
{
    struct store_options o = world_options();
    struct store_checked c;
    struct errbuf eb = {0};
    struct store *d;
    struct findings h;

    (void)arg;
    make_disk();
    h = check(&c);
    CHECK_STR(h.first, "");
    CHECK_U64(c.faults + c.notes, 0);
    CHECK_U64(c.objects, 29 + 1 + 2 + 1 + 1);
    CHECK_U64(c.parts, 1);
    CHECK(c.records > 45 && c.bytes > BIG + 400000 + 306000 + 7000);

    REQUIRE(store_open(world_path, &o, &d, &eb) == ERR_OK);
    h = check(&c);
    CHECK_SAYS(h.first, "EXISTS: a process serves this disk");
    store_close(&d);
    h = check(&c);
    CHECK_STR(h.first, "");

    /* A tail that the index does not cover is no fault. */
    o = world_options();
    o.index_interval_ms = 1000000;
    REQUIRE(store_open(world_path, &o, &d, &eb) == ERR_OK);
    store_close(&d);
    h = check(&c);
    CHECK_STR(h.first, "");
    snprintf(world_path + strlen(world_path) - 4, 5, "none");
    h = check(&c);
    CHECK_SAYS(h.first, "NOT_FOUND");
    snprintf(world_path + strlen(world_path) - 4, 5, "disk");
}

static void
test_clean(void)
{
    world_run(clean, NULL);
}

/* ---- damage ---- */

struct file {
    char path[400];
    FILE *f;
};

static void
find_file(const char *pattern, struct file *out)
{
    char command[400];
    FILE *p;

    snprintf(command, sizeof command, "ls %s/%s | head -1", world_path, pattern);
    p = popen(command, "r");
    if (p == NULL || fscanf(p, "%399s", out->path) != 1)
        abort();
    pclose(p);
    out->f = fopen(out->path, "r+");
    if (out->f == NULL)
        abort();
}

static void
flip(struct file *f, long at, unsigned bit)
{
    int byte;

    (void)fseek(f->f, at, SEEK_SET);
    byte = fgetc(f->f);
    (void)fseek(f->f, at, SEEK_SET);
    (void)fputc(byte ^ (1 << bit), f->f);
    (void)fflush(f->f);
}

/* Where the file holds these bytes; the `nth` such place. */
static long
place_of(struct file *f, const void *bytes, size_t len, unsigned nth)
{
    char *all = xmalloc(64u << 20);
    size_t n;
    char *at = all;

    (void)fseek(f->f, 0, SEEK_SET);
    n = fread(all, 1, 64u << 20, f->f);
    for (unsigned i = 0; at != NULL && i <= nth; i++) {
        at += i > 0;
        at = memmem(at, n - (size_t)(at - all), bytes, len);
    }
    if (at == NULL)
        abort();
    n = (size_t)(at - all);
    free(all);
    return (long)n;
}

static void
damage(const char *pattern, long at, const char *says)
{
    struct store_checked c;
    struct file f;
    struct findings h;

    find_file(pattern, &f);
    flip(&f, at, 3);
    h = check(&c);
    CHECK(h.faults > 0);
    CHECK_SAYS(h.first, says);
    flip(&f, at, 3);
    fclose(f.f);
}

static void
damaged(void *arg)
{
    struct store_checked c;
    struct file log, body;
    struct findings h;
    long at;

    (void)arg;
    make_disk();
    find_file("native/log-*", &log);
    find_file("native/body-*", &body);
    damage(".forebay/superblock", 20, "superblock");
    damage(".forebay/superblock.2", 20, "superblock.2");
    damage("native/log-*", 600, "native: segment log-"); /* its header */
    damage("native/body-*", 600, "native: segment body-");
    at = place_of(&log, data + 15, 1500, 0); /* the payload of small-15 */
    damage("native/log-*", at + 100, "is damaged");
    at = place_of(&log, "small-7", 7, 1); /* in a record */
    damage("native/log-*", at, "is damaged");
    at = place_of(&body, "bucket/big", 10, 0); /* in the header of a body, 4 KiB */
    damage("native/body-*", at / 4096 * 4096 + 4096 + 4321, "object \"big\" of bucket 7");
    at = place_of(&body, ".forebay/part/", 14, 0);
    damage("native/body-*", at / 4096 * 4096 + 4096, "object \"multi\" of bucket 7");
    at = place_of(&body, "bucket/big-2", 12, 0);
    damage("native/body-*", at / 4096 * 4096 + 4096 + 300000,
           "object \"big-2\" of bucket 7");
    damage("native/body-*", at, "segment "); /* the chain of headers breaks there, too */
    h = check(&c);
    CHECK_STR(h.first, "");
    fclose(log.f);
    fclose(body.f);
}

static void
test_damaged(void)
{
    world_run(damaged, NULL);
}

/* Any bit of what the log holds, and the index knows of. */
static void
any_bit_of_the_log(void *arg)
{
    struct store_checked c;
    struct file log;
    long end;

    (void)arg;
    make_disk();
    find_file("native/log-*", &log);
    end =
        place_of(&log, (char[16384]){0}, 16384, 0); /* nothing is behind the last batch */
    for (unsigned i = 0; i < 60; i++) {
        long at = (long)((i * 2654435761u) % (unsigned)end);
        struct findings h;

        flip(&log, at, i % 8);
        h = check(&c);
        if (h.faults + h.notes == 0)
            fprintf(stderr, "bit %u of byte %ld of %ld\n", i % 8, at, end);
        CHECK(h.faults + h.notes > 0); /* a note: bytes of what does not live */
        flip(&log, at, i % 8);
    }
    fclose(log.f);
}

static void
test_any_bit_of_the_log(void)
{
    world_run(any_bit_of_the_log, NULL);
}

static void
index_against_logs(void *arg)
{
    struct store_checked c;
    struct file f;
    struct findings h;
    char from[400], to[400];

    (void)arg;
    make_disk();
    find_file("index/data.mdb", &f);
    snprintf(to, sizeof to, "%s/index/damaged", world_path);
    fclose(fopen(to, "w")); /* as the server left it behind */
    h = check(&c);
    CHECK_SAYS(h.first, "the index is damaged: the next start, or forebay disk rebuild");
    CHECK_U64(h.faults, 1);
    CHECK(unlink(to) == 0);
    flip(&f, place_of(&f, "small-12", 8, 0) + 20, 2); /* in its entry */
    fclose(f.f);
    h = check(&c);
    CHECK_SAYS(h.first, "the index says something else than the logs in the entry of "
                        "\"small-12\" of bucket 7");
    CHECK_U64(h.faults, 1);

    snprintf(from, sizeof from, "%s/index/data.mdb", world_path);
    snprintf(to, sizeof to, "%s/index/kept", world_path);
    CHECK(rename(from, to) == 0);
    h = check(&c); /* an index may be lost: it is made again */
    CHECK_SAYS(h.first, "the index is empty");
    CHECK(h.faults == 0 && h.notes == 1);
    CHECK(access(from, F_OK) != 0);
    CHECK_U64(c.objects, 34);
}

static void
test_index_against_logs(void)
{
    world_run(index_against_logs, NULL);
}

/* ---- what the next start would drop ---- */

/* Zeros, as the disk has where a body was not synced. */
static void
lose_block(const struct entry *entry)
{
    static const char zeros[16384];
    int fd = world_file("cached/body-%06u.tar", entry->place.segment);

    CHECK(pwrite(fd, zeros, sizeof zeros, (off_t)(entry->place.offset + 4096 + 65536)) ==
          sizeof zeros);
    close(fd);
}

/* A cached body that a power cut took, with a record that says it is there: no damage where the index does not cover that
 * record, for a start drops it; and what was cached of the key before it comes not back. Of what the index covers it is. */
static void
cut_cached_bodies(void *arg)
{
    struct store_options o = world_options();
    struct store_checked c;
    struct store *d;
    struct errbuf eb = {0};
    struct findings h;
    struct entry lost, kept;

    (void)arg;
    REQUIRE(store_open(world_path, &o, &d, &eb) == ERR_OK);
    CHECK(world_put_class(d, STORE_CACHED, "lost", data, 5000, true, NULL, &lost) ==
          ERR_OK);
    CHECK(world_put_class(d, STORE_CACHED, "kept", data, BIG, true, NULL, &kept) ==
          ERR_OK);
    store_close(&d);
    o = world_options();
    o.index_interval_ms = 1000000;
    REQUIRE(store_open(world_path, &o, &d, &eb) == ERR_OK);
    CHECK(world_put_class(d, STORE_CACHED, "lost", data, BIG, true, NULL, &lost) ==
          ERR_OK);
    world_copy(); /* it was not closed */
    store_close(&d);
    world_back_to_copy();
    lose_block(&lost);
    h = check(&c);
    CHECK_SAYS(h.first, "\"lost\" of bucket 7, segment ");
    CHECK_SAYS(h.first, "the next start drops it, and the next read fetches it");
    CHECK(h.faults == 0 && h.notes == 1);
    CHECK_U64(c.objects, 1);
    d = world_open(NULL); /* as the start does */
    CHECK(world_get_damaged(d, "lost", data, BIG) == ERR_NOT_FOUND);
    CHECK(world_get_damaged(d, "kept", data, BIG) == ERR_OK);
    store_close(&d);
    h = check(&c);
    CHECK_STR(h.first, "");
    lose_block(&kept);
    h = check(&c);
    CHECK_SAYS(h.first, "object \"kept\" of bucket 7");
    CHECK(h.faults == 1 && h.notes == 0);
}

static void
test_cut_cached_bodies(void)
{
    world_run(cut_cached_bodies, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    data = xmalloc(BIG + 100);
    world_fill(data, BIG + 100, 5);
    RUN(test_clean);
    RUN(test_damaged);
    RUN(test_any_bit_of_the_log);
    RUN(test_index_against_logs);
    RUN(test_cut_cached_bodies);
    free(data);
    return check_done();
}
