/* export: the living objects of stopped disks, in order of bucket and key, given to a sink. It works on what the check
 * makes: a disk read only, its index rebuilt from the logs. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/usage.h"
#include "store/offline/check.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/read.h"
#include "store/segment/scan.h"
#include "store/store_entry.h"
#include "store/store_exported.h"
#include "store/store_health.h"
#include "store/store_read.h"
#include "store/store_rescue.h"
#include "store/wal/change.h"

#define PAGE      200u
#define WHOLE_MAX (4u << 20) /* objects up to here are read once, into memory */
#define DISKS_MAX 256u

/* One disk's entries of the bucket at hand. */
struct side {
    struct check *check; /* owned */
    struct store_checked counted;
    struct arena *arena; /* owned */
    struct store_entry *entries;
    uint32_t at, count;
    bool more;
    char after[STORE_KEY_MAX];
    size_t after_len;
};
struct export
{
    const struct store_export_options *o;
    const struct store_export_sink *sink;
    struct store_exported *out;
    struct side *sides; /* owned */
    unsigned count;
    uint64_t bucket, total;
    char name[256]; /* of the bucket at hand; empty: not known yet */
    size_t name_len;
    struct arena *arena; /* of one object; owned */
    struct buf whole;
};

static void PRINTF(2, 3) say(const struct export *x, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (x->o->say != NULL)
        x->o->say(x->o->arg, text);
}

/* ---- opening ---- */

static void
on_finding(void *arg, bool fault, const char *sentence)
{
    const struct export *x = arg;

    if (fault && x->o->say != NULL)
        x->o->say(x->o->arg, sentence);
}

static void
on_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    const struct export *x = arg;

    if (x->o->progress != NULL)
        x->o->progress(x->o->arg, what, done, total);
}

static enum err
open_side(struct export *x, struct side *s, const char *path, struct errbuf *eb)
{
    enum err rc;

    s->arena = arena_new(KIB(64), MIB(4));
    s->check = check_new();
    s->check->result = &s->counted;
    s->check->say = on_finding;
    s->check->progress = on_progress;
    s->check->arg = x;
    rc = check_open(s->check, path, x->o->scratch, eb);
    if (rc == ERR_OK)
        rc = check_logs(s->check, false, eb);
    if (rc != ERR_OK)
        err_prefix(eb, "\"%s\"", path);
    return rc;
}

/* ---- walking ---- */

static enum err
load_page(struct export *x, struct side *s, bool first, struct errbuf *eb)
{
    struct store *d = s->check->disk;
    enum err rc;

    assert(s->after_len <= sizeof s->after);
    if (!first && s->count > 0) {
        s->after_len = s->entries[s->count - 1].key.len;
        memcpy(s->after, s->entries[s->count - 1].key.at, s->after_len);
    }
    arena_reset(s->arena);
    s->at = 0;
    rc = list_objects_any(d->memtable, d->index, x->bucket,
                          (struct span){s->after, s->after_len}, first, PAGE, s->arena,
                          &s->entries, &s->count, &s->more, eb);
    return rc;
}

/* The entry at hand; NULL at the end. */
static enum err
look(struct export *x, struct side *s, const struct store_entry **out, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(s->at <= s->count);
    *out = NULL;
    while (rc == ERR_OK && s->at == s->count && s->more)
        rc = load_page(x, s, false, eb);
    if (rc == ERR_OK && s->at < s->count)
        *out = &s->entries[s->at];
    return rc;
}

static enum err
begin_bucket(struct export *x, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    x->name_len = 0;
    for (unsigned i = 0; rc == ERR_OK && i < x->count; i++) {
        struct side *s = &x->sides[i];

        s->after_len = x->o->prefix.len;
        memcpy(s->after, x->o->prefix.at, x->o->prefix.len);
        rc = load_page(x, s, true, eb);
    }
    return rc;
}

/* The smallest bucket >= from that a disk has entries of. ERR_NOT_FOUND. */
static enum err
next_bucket(struct export *x, uint64_t from, struct errbuf *eb)
{
    bool found = false;

    for (unsigned i = 0; i < x->count; i++) {
        uint64_t bucket;
        enum err rc = index_bucket(x->sides[i].check->disk->index, from, &bucket, eb);

        if (rc == ERR_NOT_FOUND)
            continue;
        if (rc != ERR_OK)
            return rc;
        x->bucket = found ? MIN(x->bucket, bucket) : bucket;
        found = true;
    }
    return found ? ERR_OK : ERR_NOT_FOUND;
}

/* ---- one object ---- */

/* The name that its bucket was born with stands in each object's header. */
static enum err
find_name(struct export *x, struct side *s, const struct entry *entry, struct errbuf *eb)
{
    struct span birth = {"", 0}, name;
    struct loaded l = {0};
    struct read_file f = {0};
    struct iobuf *b = NULL;
    struct log_record m;
    uint64_t next;
    enum err rc;

    if (x->name_len > 0)
        return ERR_OK;
    if ((entry->flags & (ENTRY_INLINE | ENTRY_PARTS)) != 0) {
        struct entry at = *entry;

        at.flags |= ENTRY_INLINE;
        rc = read_log_record(s->check->disk, &at, false, &l, eb);
        birth = l.m.immutable_name;
    } else {
        struct scan_source source = {.segment = entry->place.segment, .size = UINT64_MAX};

        rc = read_file_open(s->check->disk, entry, &f, eb);
        source.file = rc == ERR_OK ? read_file_of(&f) : NULL;
        source.generation = f.pin != NULL ? f.pin->generation : 1;
        if (rc == ERR_OK &&
            place_scan(&source, entry->place.offset, &m, &b, &next, NULL) == SCAN_BATCH)
            birth = m.immutable_name;
    }
    name = x->o->name_of != NULL ? x->o->name_of(x->o->arg, x->bucket, birth) : birth;
    if (name.len > 0 && name.len < sizeof x->name) {
        memcpy(x->name, name.at, name.len);
        x->name_len = name.len;
    }
    loaded_fini(&l);
    iobuf_drop(&b);
    read_file_close(&f);
    return rc == ERR_CORRUPT ? ERR_OK : rc; /* another object says it */
}

/* Reads it all: into memory where it is small, for its sum only, or (the second time) to the sink. */
static enum err
read_all(struct export *x, struct side *s, const struct store_key *k,
         const struct entry *entry, bool give, uint32_t *sum, struct errbuf *eb)
{
    struct store_reader *r;
    struct span piece = {"", 1};
    enum err rc = store_read_begin(s->check->disk, k, entry, 0, entry->size, &r, eb);

    *sum = 0;
    buf_clear(&x->whole);
    while (rc == ERR_OK) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        *sum = hash_crc32c(*sum, piece.at, piece.len);
        if (give)
            rc = x->sink->data(x->sink->arg, piece, eb);
        else if (entry->size <= WHOLE_MAX)
            buf_put_span(&x->whole, piece);
    }
    store_read_end(&r);
    return rc;
}

/* A key that stands at once for an object and for a folder of others: FOO beside FOO/BAR. */
static enum err
has_folder(struct export *x, struct span key, bool *out, struct errbuf *eb)
{
    char folder[STORE_KEY_MAX + 1];
    struct span from = {folder, key.len + 1};
    struct arena *a = arena_new(4096, MIB(1));
    enum err rc = ERR_OK;

    assert(key.len <= STORE_KEY_MAX);
    *out = false;
    memcpy(folder, key.at, key.len);
    folder[key.len] = '/';
    for (unsigned i = 0; rc == ERR_OK && !*out && key.len < STORE_KEY_MAX && i < x->count;
         i++) {
        struct store *d = x->sides[i].check->disk;
        struct store_entry *e;
        uint32_t count;
        bool more;

        arena_reset(a);
        rc = list_objects(d->memtable, d->index, x->bucket, from, true, 1, a, &e, &count,
                          &more, eb);
        *out = rc == ERR_OK && count > 0 && span_starts(e[0].key, from);
    }
    arena_free(&a);
    return rc;
}

static enum err
give_object(struct export *x, struct side *s, const struct store_key *k,
            const struct entry *entry, const struct exported *e, struct errbuf *eb)
{
    bool aside;
    uint32_t sum;
    enum err rc = has_folder(x, e->key, &aside, eb);

    if (rc != ERR_OK)
        return rc;
    x->out->aside += aside || !exported_is_safe(e->bucket, e->key);
    if (x->o->dry_run)
        return ERR_OK;
    rc = x->sink->begin(x->sink->arg, e, aside, eb);
    if (rc == ERR_OK && entry->size <= WHOLE_MAX && entry->size > 0)
        rc = x->sink->data(x->sink->arg, buf_span(&x->whole), eb);
    else if (rc == ERR_OK && entry->size > 0)
        rc = read_all(x, s, k, entry, true, &sum, eb);
    if (rc == ERR_OK && entry->size > WHOLE_MAX && sum != e->sum)
        rc = err_set(eb, ERR_CORRUPT, "bytes that changed while they were exported");
    return rc == ERR_OK ? x->sink->end(x->sink->arg, eb) : rc;
}

/* ERR_CORRUPT: on this disk it is damaged; nothing was given out. */
static enum err
export_from(struct export *x, struct side *s, struct span key, const struct entry *entry,
            struct errbuf *eb)
{
    struct store_key k = {.bucket = x->bucket, .key = key};
    struct exported e = {.key = key, .size = entry->size, .content = entry->content};
    enum err rc = find_name(x, s, entry, eb);

    if (rc != ERR_OK)
        return rc;
    arena_reset(x->arena);
    rc = store_meta(s->check->disk, &k, entry, x->arena, &e.meta, eb);
    if (rc == ERR_OK)
        rc = read_all(x, s, &k, entry, false, &e.sum, eb);
    if (rc != ERR_OK)
        return rc;
    e.bucket = (struct span){x->name, x->name_len};
    if (e.bucket.len == 0)
        return err_set(eb, ERR_CORRUPT, "nothing tells the name of its bucket");
    if (x->o->bucket.len > 0 && !span_eq(x->o->bucket, e.bucket))
        return ERR_OK;
    rc = give_object(x, s, &k, entry, &e, eb);
    if (rc != ERR_OK)
        return rc == ERR_CORRUPT ? ERR_IO : rc; /* the sink has a part of it */
    x->out->objects++;
    x->out->bytes += entry->size;
    on_progress(x, "objects", x->out->bytes, x->total);
    return ERR_OK;
}

static bool
is_exported(const struct entry *entry)
{
    return entry_is_object(entry) && (entry->flags & ENTRY_CACHED) == 0;
}

/* The entries that the disks have of one key: the highest version stands, wherever a whole copy of it is. */
static enum err
export_key(struct export *x, struct span key, const struct entry *best, struct errbuf *eb)
{
    struct errbuf why = {0};
    char text[CHECK_KEY_TEXT];
    enum err rc = ERR_NOT_FOUND;

    assert(x->count > 0);
    for (unsigned i = 0; i < x->count && rc != ERR_OK; i++) {
        struct side *s = &x->sides[i];
        const struct store_entry *e = s->at < s->count ? &s->entries[s->at] : NULL;

        if (e == NULL || !span_eq(e->key, key) ||
            version_cmp(&e->entry.version, &best->version) != 0)
            continue;
        rc = export_from(x, s, key, &e->entry, &why);
        if (rc != ERR_OK && rc != ERR_CORRUPT && rc != ERR_NOT_FOUND) {
            *eb = why;
            return rc;
        }
    }
    if (rc != ERR_OK) {
        x->out->damaged++;
        say(x, "%s is left out: %s", check_key(x->bucket, key, text), why.text);
    }
    return ERR_OK;
}

static enum err
export_bucket(struct export *x, struct errbuf *eb)
{
    enum err rc = begin_bucket(x, eb);

    while (rc == ERR_OK) {
        const struct store_entry *e;
        struct entry best = {0};
        char key[STORE_KEY_MAX];
        struct span least = {NULL, 0};

        for (unsigned i = 0; rc == ERR_OK && i < x->count; i++) {
            rc = look(x, &x->sides[i], &e, eb);
            if (rc != ERR_OK || e == NULL)
                continue;
            if (least.at == NULL || span_cmp(e->key, least) < 0) {
                least = e->key;
                best = e->entry;
            } else if (span_eq(e->key, least) &&
                       version_cmp(&e->entry.version, &best.version) > 0) {
                best = e->entry;
            }
        }
        if (rc != ERR_OK || least.at == NULL || !span_starts(least, x->o->prefix))
            break;
        memcpy(key, least.at, least.len);
        least.at = key;
        if (is_exported(&best))
            rc = export_key(x, least, &best, eb);
        for (unsigned i = 0; i < x->count; i++) {
            struct side *s = &x->sides[i];

            if (s->at < s->count && span_eq(s->entries[s->at].key, least))
                s->at++;
        }
    }
    return rc;
}

static enum err
export_all(struct export *x, struct errbuf *eb)
{
    uint64_t from = 0;
    enum err rc;

    for (rc = next_bucket(x, from, eb); rc == ERR_OK; rc = next_bucket(x, from, eb)) {
        rc = export_bucket(x, eb);
        if (rc != ERR_OK || x->bucket == UINT64_MAX)
            return rc;
        from = x->bucket + 1;
    }
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
store_export(const struct store_export_options *o, const struct store_export_sink *sink,
             struct store_exported *out, struct errbuf *eb)
{
    struct export x = {.o = o, .sink = sink, .out = out};
    enum err rc = ERR_OK;

    *out = (struct store_exported){0};
    if (o->count == 0 || o->count > DISKS_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "%u disks, from 1 to %u", o->count,
                       DISKS_MAX);
    if (o->prefix.len > STORE_KEY_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "a prefix of %zu bytes, at most %u",
                       o->prefix.len, STORE_KEY_MAX);
    x.sides = xcalloc(o->count, sizeof *x.sides);
    x.arena = arena_new(4096, MIB(1));
    buf_init(&x.whole, WHOLE_MAX);
    for (unsigned i = 0; rc == ERR_OK && i < o->count; i++) {
        x.count++;
        rc = open_side(&x, &x.sides[i], o->paths[i], eb);
    }
    for (unsigned i = 0; rc == ERR_OK && i < x.count; i++) {
        struct store *d = x.sides[i].check->disk;

        if (memcmp(d->o.cluster_id, x.sides[0].check->disk->o.cluster_id, 16) != 0)
            rc = err_set(eb, ERR_DENIED, "\"%s\" and \"%s\" are disks of two clusters",
                         o->paths[0], o->paths[i]);
    }
    if (rc == ERR_OK)
        rc = export_all(&x, eb);
    for (unsigned i = 0; rc == ERR_OK && i < x.count; i++) {
        struct usage_totals held;

        usage_total(x.sides[i].check->disk->usage, &held);
        out->older += held.older;
        out->open_parts += held.parts;
    }
    for (unsigned i = 0; i < x.count; i++) {
        check_free(&x.sides[i].check);
        arena_free(&x.sides[i].arena);
    }
    buf_fini(&x.whole);
    arena_free(&x.arena);
    free(x.sides);
    return rc;
}
