#include "store/offline/scan_bodies.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "store/core/core.h"
#include "store/index/entry.h"
#include "store/index/find.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/manifest.h"
#include "store/segment/read.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/segment/segment_list.h"
#include "store/segment/wal_walk.h"
#include "store/store_entry.h"
#include "store/store_read.h"
#include "store/store_upload.h"
#include "store/wal/commit.h"

/* What is remembered of a body: 80 bytes. Key and metadata are read again when it is taken. */
struct orphan {
    uint64_t key_hash;
    struct content_id content;
    struct upload_id upload; /* all zeros: an object's */
    uint32_t segment, generation, part;
    bool known;
    uint64_t offset, span;
};
struct orphans {
    struct store *disk;
    const struct body_scan_options *o;
    struct body_scan_result *result;
    struct orphan *at; /* owned */
    uint32_t count, room;
    uint32_t *by_content, *by_key, *by_upload; /* owned; places in `at` */
    uint64_t bytes, total;
};

static uint64_t
hash_of_key(uint64_t bucket, struct span key)
{
    return hash_xxh3(key.at, key.len, bucket);
}

/* ---- finding ---- */

static void
take_body(struct orphans *os, const struct log_record *m)
{
    struct orphan *o;

    assert(os->count <= os->room);
    os->result->headers++;
    if (m->kind != LOG_RECORD_BODY)
        return;
    if (os->count == os->room) {
        os->room = MAX(1024u, 2 * os->room);
        os->at = xrealloc(os->at, os->room * sizeof *os->at);
    }
    o = &os->at[os->count++];
    *o = (struct orphan){.key_hash = hash_of_key(m->bucket, m->key),
                         .content = m->content,
                         .upload = m->upload,
                         .part = m->part,
                         .segment = m->segment,
                         .generation = m->generation,
                         .offset = m->offset,
                         .span = m->span};
}

static void
advance(struct orphans *os, const char *what, uint64_t bytes)
{
    uint64_t before = os->bytes >> 26;

    assert(os->result != NULL);
    os->bytes += bytes;
    if (os->o->progress != NULL && os->bytes >> 26 != before)
        os->o->progress(os->o->arg, what, os->bytes, os->total);
}

/* Headers from place to place. Where the chain is broken, the next one is looked for at each 4 KiB. */
static enum err
walk_segment(struct orphans *os, const struct scan_source *source, struct errbuf *eb)
{
    uint64_t at = STORE_ALIGN, next;

    assert(source->segment > 0);
    while (at + BODY_HEAD <= source->size) {
        struct iobuf *b;
        struct log_record m;
        struct errbuf why = {0};
        enum scanned got = place_scan(source, at, &m, &b, &next, &why);

        if (got == SCAN_BATCH)
            take_body(os, &m);
        iobuf_drop(&b);
        if (got == SCAN_ERROR || got == SCAN_NEWER) {
            *eb = why;
            return got == SCAN_NEWER ? ERR_NOT_IMPLEMENTED : ERR_IO;
        }
        if (got != SCAN_BATCH)
            next = at + STORE_ALIGN;
        advance(os, "bodies", next - at);
        at = next;
    }
    return ERR_OK;
}

static enum err
walk_file(struct orphans *os, enum segment_kind kind, uint32_t id, struct errbuf *eb)
{
    struct store *d = os->disk;
    struct scan_source source = {.segment = id, .cluster_sum = d->cluster_sum};
    struct segment *s = segment_pin(d, id);
    struct log_record head;
    char name[SEGMENT_NAME_ROOM];
    enum err rc = ERR_OK;

    if (s != NULL) {
        source.file = s->file;
        source.generation = s->generation;
        source.size = s->owner.size;
        rc = walk_segment(os, &source, eb);
        segment_drop(&s);
        return rc;
    }
    if (kind != SEGMENT_ONE)
        return ERR_OK; /* its header is of no use: said when the disk was opened */
    segment_name(kind, id, name);
    rc = rt_open(d->dir[STORE_NATIVE], name, RT_O_DIRECT, 0, &source.file, eb);
    if (rc == ERR_OK)
        rc = rt_file_size(source.file, &source.size, eb);
    if (rc == ERR_OK && segment_header_read(source.file, &head, NULL) == ERR_OK)
        source.generation = head.generation;
    else
        source.generation = 1; /* segments of one body are never used again */
    if (rc == ERR_OK)
        rc = walk_segment(os, &source, eb);
    rt_file_close(&source.file);
    return rc;
}

static enum err
find_bodies(struct orphans *os, struct errbuf *eb)
{
    struct segment_list l = {0};
    enum err rc = segment_list_read(&l, os->disk->dir[STORE_NATIVE], NULL, NULL, eb);

    os->total = atomic_load(&os->disk->segments->used_bytes[STORE_NATIVE]);
    for (uint32_t i = 0; rc == ERR_OK && i < l.count; i++)
        if (l.at[i].kind != SEGMENT_LOG)
            rc = walk_file(os, l.at[i].kind, l.at[i].id, eb);
    segment_list_fini(&l);
    return rc;
}

/* ---- what the logs know ---- */

static int
by_content(const void *ap, const void *bp, void *arg)
{
    const struct orphan *at = arg;

    return memcmp(&at[*(const uint32_t *)ap].content, &at[*(const uint32_t *)bp].content,
                  sizeof(struct content_id));
}

static int
by_key(const void *ap, const void *bp, void *arg)
{
    const struct orphan *at = arg;
    uint64_t a = at[*(const uint32_t *)ap].key_hash,
             b = at[*(const uint32_t *)bp].key_hash;

    return (a > b) - (a < b);
}

static int
by_upload(const void *ap, const void *bp, void *arg)
{
    const struct orphan *at = arg;

    return memcmp(&at[*(const uint32_t *)ap].upload, &at[*(const uint32_t *)bp].upload,
                  sizeof(struct upload_id));
}

static uint32_t *
sorted(struct orphans *os, int (*compare)(const void *, const void *, void *))
{
    uint32_t *order = xmalloc((os->count + 1) * sizeof *order);

    for (uint32_t i = 0; i < os->count; i++)
        order[i] = i;
    qsort_r(order, os->count, sizeof *order, compare, os->at);
    return order;
}

/* The first place in `order` whose orphan is not before `want`, which stands at at[count]. */
static uint32_t
lower_bound(const struct orphans *os, const uint32_t *order,
            int (*compare)(const void *, const void *, void *))
{
    uint32_t low = 0, high = os->count, want = os->count;

    assert(os->at != NULL || os->count == 0);
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (compare(&order[middle], &want, os->at) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void
content_known(struct orphans *os, const struct content_id *id)
{
    os->at[os->count].content = *id;
    for (uint32_t i = lower_bound(os, os->by_content, by_content); i < os->count; i++) {
        struct orphan *o = &os->at[os->by_content[i]];

        if (!content_eq(&o->content, id))
            break;
        o->known = true;
    }
}

/* Of this key the logs know a content: older bodies of it were replaced. */
static void
key_known(struct orphans *os, uint64_t bucket, struct span key,
          const struct content_id *id)
{
    uint64_t hash = hash_of_key(bucket, key);

    os->at[os->count].key_hash = hash;
    for (uint32_t i = lower_bound(os, os->by_key, by_key); i < os->count; i++) {
        struct orphan *o = &os->at[os->by_key[i]];

        if (o->key_hash != hash)
            break;
        o->known |= o->part == 0 && memcmp(&o->content, id, sizeof *id) < 0;
    }
}

static void
upload_ended(struct orphans *os, const struct upload_id *id)
{
    os->at[os->count].upload = *id;
    for (uint32_t i = lower_bound(os, os->by_upload, by_upload); i < os->count; i++) {
        struct orphan *o = &os->at[os->by_upload[i]];

        if (!content_eq(&o->upload.id, &id->id))
            break;
        o->known = true;
    }
}

static enum err
take_record(void *arg, struct log_record *m)
{
    static const struct content_id none;
    struct orphans *os = arg;

    if (!content_eq(&m->content, &none))
        content_known(os, &m->content);
    if (m->key.len > 0 && m->part == 0 && !content_eq(&m->content, &none))
        key_known(os, m->bucket, m->key, &m->content);
    if (m->kind == LOG_RECORD_UPLOAD_ABORT || m->kind == LOG_RECORD_UPLOAD_EXPIRE ||
        (m->kind == LOG_RECORD_UPLOAD_COMPLETE && !m->body_damaged))
        upload_ended(os, &m->upload);
    return ERR_OK;
}

static void
on_log_bytes(void *arg, uint64_t bytes)
{
    advance(arg, "logs", bytes);
}

static enum err
ask_logs(struct orphans *os, struct errbuf *eb)
{
    os->by_content = sorted(os, by_content);
    os->by_key = sorted(os, by_key);
    os->by_upload = sorted(os, by_upload);
    os->at = xrealloc(os->at, (os->count + 1) * sizeof *os->at); /* one to look for */
    os->bytes = 0;
    return wal_walk(os->disk, STORE_NATIVE, take_record, os, on_log_bytes, eb);
}

/* ---- taking back ---- */

static enum err
begin_upload(struct store *d, const struct store_key *k, const struct upload_id *id,
             struct errbuf *eb)
{
    static const struct object_meta none;
    struct commit c = {
        .kind = LOG_RECORD_UPLOAD_BEGIN, .key = k, .upload = *id, .meta = &none};
    struct upload_entry u;
    enum err rc = find_upload(d->memtable, d->index, k->bucket, k->key, id, &u, eb);

    return rc == ERR_NO_UPLOAD ? commit_submit(d, STORE_NATIVE, &c, eb) : rc;
}

static enum err
commit_orphan(struct orphans *os, const struct orphan *o, const struct log_record *m,
              struct arena *a, struct errbuf *eb)
{
    struct store *d = os->disk;
    struct store_key k = {
        .bucket = m->bucket, .immutable_name = m->immutable_name, .key = m->key};
    struct entry entry = {.content = o->content,
                          .size = m->size,
                          .place.segment = o->segment,
                          .place.offset = o->offset};
    struct object_meta meta;
    struct commit c = {.kind = o->part > 0 ? LOG_RECORD_PART : LOG_RECORD_COMMIT,
                       .key = &k,
                       .meta = &meta,
                       .content = o->content,
                       .size = m->size,
                       .place = {o->segment, o->generation, o->offset, o->span},
                       .upload = o->upload,
                       .of.upload.part = o->part};
    enum err rc = store_meta(d, &k, &entry, a, &meta, eb);

    if (rc == ERR_OK && o->part > 0)
        rc = begin_upload(d, &k, &o->upload, eb);
    return rc == ERR_OK ? commit_submit(d, STORE_NATIVE, &c, eb) : rc;
}

/* No record says that this body was ever acknowledged, so its header alone is not believed: after a cut it may be all that is
 * there. *taken is false where it is damaged, which is said. */
static enum err
take_back(struct orphans *os, const struct orphan *o, struct arena *a, bool *taken,
          struct errbuf *eb)
{
    struct store *d = os->disk;
    struct entry entry = {
        .content = o->content, .place.segment = o->segment, .place.offset = o->offset};
    struct read_file f = {0};
    struct scan_source source = {.segment = o->segment, .generation = o->generation};
    struct errbuf why = {0};
    struct iobuf *b = NULL;
    struct log_record m;
    char text[160];
    uint64_t next, bad;
    enum err rc = read_file_open(d, &entry, &f, &why);

    *taken = false;
    source.file = rc == ERR_OK ? read_file_of(&f) : NULL;
    source.size = o->offset + o->span;
    if (rc == ERR_OK && place_scan(&source, o->offset, &m, &b, &next, &why) != SCAN_BATCH)
        rc = ERR_CORRUPT;
    if (rc == ERR_OK) {
        entry.size = m.size;
        rc = body_is_whole(source.file, d->cluster_sum, &entry, &bad, &why);
    }
    arena_reset(a);
    if (rc == ERR_OK && !os->o->dry_run)
        rc = commit_orphan(os, o, &m, a, &why);
    if (rc == ERR_OK) {
        *taken = true;
        *(o->part > 0 ? &os->result->parts : &os->result->bodies) += 1;
    } else if (rc == ERR_CORRUPT) {
        snprintf(text, sizeof text,
                 "the body at %" PRIu64 " of segment %06" PRIu32
                 " is damaged and stays where it is",
                 o->offset, o->segment);
        if (os->o->say != NULL)
            os->o->say(os->o->arg, text);
        rc = ERR_OK;
    }
    iobuf_drop(&b);
    read_file_close(&f);
    if (rc != ERR_OK)
        *eb = why;
    return rc;
}

/* A younger body of this key or part was taken: older ones are no objects of their own, and are only counted once. */
static void
outdate(struct orphans *os, const struct orphan *taken)
{
    os->at[os->count].key_hash = taken->key_hash;
    for (uint32_t i = lower_bound(os, os->by_key, by_key); i < os->count; i++) {
        struct orphan *o = &os->at[os->by_key[i]];

        if (o->key_hash != taken->key_hash)
            break;
        o->known |= o->part == taken->part &&
                    content_eq(&o->upload.id, &taken->upload.id) &&
                    memcmp(&o->content, &taken->content, sizeof o->content) <= 0;
    }
}

/* The youngest first: of each key the first that is whole. */
static enum err
take_all_back(struct orphans *os, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, MIB(1));
    enum err rc = ERR_OK;

    for (uint32_t i = 0; rc == ERR_OK && i < os->count; i++) {
        const struct orphan *o = &os->at[os->by_content[os->count - 1 - i]];
        bool taken = false;

        if (!o->known)
            rc = take_back(os, o, a, &taken, eb);
        if (taken)
            outdate(os, o);
        if (os->o->progress != NULL && i % 1024 == 1023)
            os->o->progress(os->o->arg, "records", i, os->count);
    }
    arena_free(&a);
    return rc;
}

enum err
scan_bodies(struct store *d, const struct body_scan_options *o,
            struct body_scan_result *out, struct errbuf *eb)
{
    struct orphans os = {.disk = d, .o = o, .result = out};
    enum err rc;

    assert(on_owner(d));
    *out = (struct body_scan_result){0};
    rc = find_bodies(&os, eb);
    if (rc == ERR_OK)
        rc = ask_logs(&os, eb);
    if (rc == ERR_OK)
        rc = take_all_back(&os, eb);
    free(os.by_content);
    free(os.by_key);
    free(os.by_upload);
    free(os.at);
    return rc;
}
