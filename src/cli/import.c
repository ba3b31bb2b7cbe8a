#include "cli/import.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "wire/s3name.h"

#define PART_BYTES                                                                       \
    ((uint64_t)1 << 30) /* of objects that are larger than one body may be */
#define BODY_MOST ((uint64_t)5 << 30)

struct import_object {
    struct import *import;
    struct arena *arena; /* owned: key, metadata */
    struct exported e;
    bool exact;
    uint64_t got;
    uint32_t sum;
    struct digest md5;
    const struct map_bucket *bucket; /* one reference */
    struct disks_key key;

    struct buf small;            /* of a small one: all of it */
    struct disks_writer *writer; /* of a large one, or of its part; owned */
    struct upload_id upload;     /* of one that is too large for one body */
    bool in_parts;
    uint32_t part;
    uint64_t part_left;
    struct digest part_md5;
};

static void PRINTF(2, 3) refuse(struct import *i, const char *fmt, ...)
{
    char text[1400];
    va_list ap;

    i->result.refused++;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (i->o->say != NULL)
        i->o->say(i->o->arg, text);
}

void
import_start(struct import *i, struct node_offline *n, const struct import_options *o)
{
    *i = (struct import){.node = n, .o = o};
    rt_sem_init(&i->seats, IMPORT_AT_ONCE);
    rt_group_begin(&i->group);
}

static void
object_free(struct import_object **op)
{
    struct import_object *o = *op;

    *op = NULL;
    if (o == NULL)
        return;
    disks_write_abort(&o->writer);
    digest_fini(&o->md5);
    digest_fini(&o->part_md5);
    buf_fini(&o->small);
    map_bucket_drop(&o->bucket);
    arena_free(&o->arena);
    free(o);
}

/* ---- buckets ---- */

static enum err
make_bucket(struct import *i, struct span name, const struct map_bucket **out,
            struct errbuf *eb)
{
    struct node_offline *n = i->node;
    struct buf record;
    enum err rc;

    if (i->o->exact_buckets)
        return err_set(eb, ERR_NO_BUCKET, "the bucket \"%.*s\" is not in the backup",
                       (int)name.len, name.at);
    rc =
        map_bucket_create(n->map, name, NULL, (int64_t)(rt_wall_ns() / 1000000), out, eb);
    if (rc != ERR_OK)
        return rc;
    buf_init(&record, KIB(64));
    map_bucket_encode(*out, &record);
    rc = disks_bucket_note(n->disks, (*out)->id, buf_span(&record), eb);
    buf_fini(&record);
    return rc;
}

static enum err
find_bucket(struct import *i, struct span name, const struct map_bucket **out,
            struct errbuf *eb)
{
    const struct map_bucket *b = map_bucket_find(map_now(i->node->map), name);

    *out = NULL;
    if (b == NULL)
        return make_bucket(i, name, out, eb);
    if (b->cached)
        return err_set(eb, ERR_NOT_ALLOWED,
                       "the bucket \"%.*s\" mirrors a remote one: put the objects there",
                       (int)name.len, name.at);
    *out = map_bucket_ref(b);
    return ERR_OK;
}

/* ---- begin ---- */

static enum err
part_is_there(struct import_object *o, bool *same, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, KIB(64));
    struct store_part *p;
    uint32_t count;
    bool more;
    enum err rc = disks_part_list(o->import->node->disks, &o->key, &o->e.upload,
                                  o->e.part - 1, 1, a, &p, &count, &more, eb);

    *same = rc == ERR_OK && count > 0 && p->number == o->e.part && p->size == o->e.size &&
            memcmp(p->md5, o->e.meta.md5, sizeof p->md5) == 0;
    arena_free(&a);
    return rc;
}

/* A version is what its id says. */
static enum err
version_is_there(struct import_object *o, bool *same, struct errbuf *eb)
{
    struct entry entry;
    bool current;
    enum err rc = disks_version_find(o->import->node->disks, &o->key, &o->e.born, &entry,
                                     &current, eb);

    *same = rc == ERR_OK;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

/* Is there the same object already? By what the record says of it, else by size and time. */
static enum err
is_there(struct import_object *o, bool *same, struct errbuf *eb)
{
    struct entry entry;
    enum err rc;

    *same = false;
    if (o->e.what == EXPORTED_UPLOAD)
        return ERR_OK;
    if (o->e.what == EXPORTED_PART)
        return part_is_there(o, same, eb);
    if (o->e.what != EXPORTED_OBJECT)
        return version_is_there(o, same, eb);
    rc = disks_lookup(o->import->node->disks, &o->key, &entry, eb);
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc != ERR_OK || entry.size != o->e.size)
        return rc;
    *same = entry.mtime_ms == o->e.meta.mtime_ms &&
            (!o->exact || (memcmp(entry.md5, o->e.meta.md5, 16) == 0 &&
                           entry.parts == o->e.meta.parts));
    return ERR_OK;
}

static enum err
begin_part(struct import_object *o, struct errbuf *eb)
{
    const struct import *i = o->import;

    o->part++;
    o->part_left =
        MIN(i->o->part_bytes > 0 ? i->o->part_bytes : PART_BYTES, o->e.size - o->got);
    digest_init(&o->part_md5, DIGEST_MD5);
    return disks_part_begin(o->import->node->disks, &o->key, &o->upload, o->part,
                            o->part_left, &o->writer, eb);
}

static enum err
begin_body(struct import_object *o, struct errbuf *eb)
{
    struct disks *ds = o->import->node->disks;
    uint64_t most = o->import->o->body_most > 0 ? o->import->o->body_most : BODY_MOST;
    enum err rc;

    buf_init(&o->small, STORE_INLINE_MAX);
    if (o->e.size <= STORE_INLINE_MAX)
        return ERR_OK;
    if (o->e.what == EXPORTED_PART)
        return disks_part_begin(ds, &o->key, &o->e.upload, o->e.part, o->e.size,
                                &o->writer, eb);
    if (o->e.size <= most)
        return disks_write_begin(ds, &o->key, STORE_NATIVE, o->e.size, &o->writer, eb);
    o->in_parts = true;
    if (o->import->o
            ->exact_buckets) { /* one that was broken off is gone on with, and never listed for ever */
        o->upload.id = o->e.content;
        rc = disks_upload_begin_as(ds, &o->key, &o->e.meta, &o->upload, eb);
        rc = rc == ERR_EXISTS ? ERR_OK : rc;
    } else {
        rc = disks_upload_begin(ds, &o->key, &o->e.meta, &o->upload, eb);
    }
    return rc == ERR_OK ? begin_part(o, eb) : rc;
}

static bool
is_key(struct span key)
{
    return key.len >= 1 && key.len <= STORE_KEY_MAX && utf8_valid(key);
}

static struct span
import_bucket_name(const struct import *i, struct span name)
{
    if (i->o->bucket.len > 0)
        return i->o->bucket;
    for (size_t n = 0; n < i->o->rename_count; n++)
        if (span_eq(i->o->renames[n].from, name))
            return i->o->renames[n].to;
    return name;
}

/* A bucket that no API would accept by this name is not made. One that is there already has a name of its own kind. */
static bool
import_takes_bucket(struct import *i, struct span name)
{
    bool there = !i->o->dry_run && map_bucket_find(map_now(i->node->map), name) != NULL;

    if (i->o->exact_buckets || there || s3_bucket_ok(name))
        return true;
    i->result.refused++;
    if (i->refused_bucket != NULL && span_is(name, i->refused_bucket))
        return false;
    free(i->refused_bucket);
    i->refused_bucket = xmemdup0(name.at, name.len);
    i->result.refused--; /* counted by refuse() */
    refuse(i,
           "\"%.*s\" cannot be a bucket's name: %d to %d of a-z, 0-9, \"-\" and \".\"; "
           "its objects are left out. Give it another one: --rename \"%.*s=NAME\"",
           (int)MIN(name.len, 255u), name.at, S3_BUCKET_MIN, S3_BUCKET_MAX,
           (int)MIN(name.len, 255u), name.at);
    return false;
}

/* Everything of the object that outlives the call. */
static struct import_object *
object_new(struct import *i, const struct exported *e, bool exact)
{
    struct import_object *o = xcalloc(1, sizeof *o);
    struct span bucket = import_bucket_name(i, e->bucket);
    char *key;

    o->import = i;
    o->arena = arena_new(4096, MIB(1));
    o->e = *e;
    o->exact = exact;
    key = arena_alloc(o->arena, i->o->prefix.len + e->key.len + 1);
    if (i->o->prefix.len > 0)
        memcpy(key, i->o->prefix.at, i->o->prefix.len);
    memcpy(key + i->o->prefix.len, e->key.at, e->key.len);
    o->e.key = (struct span){key, i->o->prefix.len + e->key.len};
    o->e.bucket = arena_span(o->arena, bucket);
    meta_copy(o->arena, &e->meta, &o->e.meta);
    digest_init(&o->md5, DIGEST_MD5);
    return o;
}

static enum store_versioning
versioning_of(const struct map_bucket *b)
{
    return b->versioning == MAP_VERSIONED   ? STORE_VERSIONED
           : b->versioning == MAP_SUSPENDED ? STORE_SUSPENDED
                                            : STORE_UNVERSIONED;
}

static enum err
place_object(struct import_object *o, struct errbuf *eb)
{
    enum err rc = find_bucket(o->import, o->e.bucket, &o->bucket, eb);

    if (rc != ERR_OK)
        return rc;
    if (o->e.what == EXPORTED_OBJECT) /* it is imported like a PUT */
        o->e.meta.versioning = (uint8_t)versioning_of(o->bucket);
    o->key =
        (struct disks_key){.at = {.bucket = o->bucket->id,
                                  .immutable_name = span_of(o->bucket->immutable_name),
                                  .key = o->e.key},
                           .copies = o->bucket->copies};
    return ERR_OK;
}

static enum err start_commit(struct import_object *o, struct errbuf *eb);

/* What has no bytes. An upload is there when this returns: its parts follow. Takes `o`. */
static enum err
take_bare(struct import_object *o, struct errbuf *eb)
{
    struct import *i = o->import;
    enum err rc;

    if (o->e.what == EXPORTED_MARKER)
        return start_commit(o, eb);
    rc = disks_upload_begin_as(i->node->disks, &o->key, &o->e.meta, &o->e.upload, eb);
    i->result.uploads += rc == ERR_OK;
    i->result.same += rc == ERR_EXISTS;
    object_free(&o);
    return rc == ERR_EXISTS ? ERR_OK : rc;
}

enum err
import_begin(struct import *i, const struct exported *e, bool exact, bool *wanted,
             struct errbuf *eb)
{
    struct import_object *o;
    bool same = false;
    enum err rc = i->rc;

    *wanted = false;
    if (rc != ERR_OK) {
        *eb = i->eb;
        return rc;
    }
    o = object_new(i, e, exact);
    if (!is_key(o->e.key)) {
        refuse(i, "\"%.*s\": a key is 1 to %u bytes of UTF-8", (int)o->e.key.len,
               o->e.key.at, STORE_KEY_MAX);
    } else if (!import_takes_bucket(i, o->e.bucket)) {
        ; /* said */
    } else if (i->o->dry_run) {
        i->result.objects++;
        i->result.bytes += e->size;
    } else {
        rc = place_object(o, eb);
        if (rc == ERR_OK)
            rc = is_there(o, &same, eb);
        i->result.same += same;
        if (rc == ERR_OK && !same &&
            (e->what == EXPORTED_MARKER || e->what == EXPORTED_UPLOAD))
            return take_bare(o, eb);
        if (rc == ERR_OK && !same)
            rc = begin_body(o, eb);
        *wanted = rc == ERR_OK && !same;
    }
    if (rc != ERR_OK)
        err_prefix(eb, "%.*s/%.*s", (int)o->e.bucket.len, o->e.bucket.at,
                   (int)o->e.key.len, o->e.key.at);
    if (*wanted)
        i->object = o;
    else
        object_free(&o);
    return rc;
}

/* ---- data ---- */

static enum err
end_part(struct import_object *o, struct errbuf *eb)
{
    struct object_meta meta = {.mtime_ms = o->e.meta.mtime_ms};
    unsigned char md5[DIGEST_MAX];

    (void)digest_end(&o->part_md5, md5);
    memcpy(meta.md5, md5, sizeof meta.md5);
    return disks_part_commit(&o->writer, &meta, eb);
}

static enum err
write_part(struct import_object *o, struct span piece, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && piece.len > 0) {
        size_t n = (size_t)MIN((uint64_t)piece.len, o->part_left);

        digest_add(&o->part_md5, piece.at, n);
        rc = disks_write(o->writer, piece.at, n, eb);
        o->part_left -= n;
        o->got += n;
        piece = span_from(piece, n);
        if (rc == ERR_OK && o->part_left == 0)
            rc = end_part(o, eb);
        if (rc == ERR_OK && o->part_left == 0 && o->got < o->e.size)
            rc = begin_part(o, eb);
    }
    return rc;
}

enum err
import_data(struct import *i, struct span piece, struct errbuf *eb)
{
    struct import_object *o = i->object;

    assert(o != NULL);
    if (piece.len > o->e.size - o->got)
        return err_set(eb, ERR_CORRUPT, "more bytes than announced");
    digest_add(&o->md5, piece.at, piece.len);
    o->sum = hash_crc32c(o->sum, piece.at, piece.len);
    if (i->o->progress != NULL)
        i->o->progress(i->o->arg, piece.len);
    if (o->in_parts)
        return write_part(o, piece, eb);
    o->got += piece.len;
    if (o->writer != NULL)
        return disks_write(o->writer, piece.at, piece.len, eb);
    buf_put_span(&o->small, piece);
    return ERR_OK;
}

/* ---- end ---- */

/* Bytes and record must agree; without a record the MD5 is the ETag. False: said, and nothing is kept. */
static bool
import_check(struct import_object *o)
{
    static const uint8_t none[16];
    unsigned char md5[DIGEST_MAX];
    struct object_meta *m = &o->e.meta;
    bool is_md5 = m->parts == 0 && m->etag_text.len == 0;

    (void)digest_end(&o->md5, md5);
    if (o->exact && (o->sum != o->e.sum || (is_md5 && memcmp(m->md5, none, 16) != 0 &&
                                            memcmp(m->md5, md5, 16) != 0))) {
        refuse(o->import, "%.*s/%.*s: its bytes are not what its record says",
               (int)o->e.bucket.len, o->e.bucket.at, (int)o->e.key.len, o->e.key.at);
        return false;
    }
    if (!o->exact)
        memcpy(m->md5, md5, sizeof m->md5);
    return true;
}

static enum err
import_complete(struct import_object *o, struct errbuf *eb)
{
    struct disks *ds = o->import->node->disks;
    struct arena *a = arena_new(KIB(64), MIB(8));
    struct store_part *parts;
    struct entry entry;
    uint32_t count;
    bool more;
    enum err rc = disks_part_list(ds, &o->key, &o->upload, 0, STORE_PARTS_MAX, a, &parts,
                                  &count, &more, eb);

    if (rc == ERR_OK && o->e.what == EXPORTED_VERSION)
        rc = disks_upload_complete_version(ds, &o->key, &o->upload, parts, count,
                                           &o->e.meta, &o->e.born, eb);
    else if (rc == ERR_OK)
        rc = disks_upload_complete(ds, &o->key, &o->upload, parts, count, &o->e.meta,
                                   NULL, &entry, eb);
    arena_free(&a);
    return rc;
}

/* Of a small one all bytes are at hand. */
static enum err
write_small(struct import_object *o, struct errbuf *eb)
{
    struct disks *ds = o->import->node->disks;
    enum err rc =
        o->e.what == EXPORTED_PART
            ? disks_part_begin(ds, &o->key, &o->e.upload, o->e.part, o->e.size,
                               &o->writer, eb)
            : disks_write_begin(ds, &o->key, STORE_NATIVE, o->e.size, &o->writer, eb);

    if (rc == ERR_OK && o->small.len > 0)
        rc = disks_write(o->writer, o->small.at, o->small.len, eb);
    return rc;
}

static enum err
put_marker(struct import_object *o, struct errbuf *eb)
{
    struct entry marker = {
        .flags =
            ENTRY_TOMBSTONE | ENTRY_MARKER |
            (o->e.meta.versioning == STORE_VERSIONED ? ENTRY_VERSIONED : ENTRY_SUSPENDED),
        .version = o->e.born,
        .mtime_ms = o->e.meta.mtime_ms};

    return disks_restore_marker(o->import->node->disks, &o->key, &marker, eb);
}

static enum err
commit(struct import_object *o, struct errbuf *eb)
{
    struct entry entry;
    enum err rc = ERR_OK;

    if (o->e.what == EXPORTED_MARKER)
        return put_marker(o, eb);
    if (o->in_parts)
        return import_complete(o, eb);
    if (o->writer == NULL)
        rc = write_small(o, eb);
    if (rc != ERR_OK)
        return rc;
    if (o->e.what == EXPORTED_PART)
        return disks_part_commit(&o->writer, &o->e.meta, eb);
    return o->e.what == EXPORTED_VERSION
               ? disks_commit_version(&o->writer, &o->e.meta, &o->e.born, eb)
               : disks_commit(&o->writer, &o->e.meta, NULL, &entry, eb);
}

static void
count_done(struct imported *r, const struct exported *e)
{
    r->bytes += e->size;
    if (e->what == EXPORTED_MARKER)
        r->markers++;
    else if (e->what == EXPORTED_PART)
        r->parts++;
    else if (e->older)
        r->older++;
    else
        r->objects++;
}

static void
commit_fiber(void *arg)
{
    struct import_object *o = arg;
    struct import *i = o->import;
    struct errbuf eb = {{0}};
    enum err rc = commit(o, &eb);

    if (rc == ERR_OK) {
        count_done(&i->result, &o->e);
    } else if (i->rc == ERR_OK) {
        i->rc = rc;
        i->eb = eb;
        err_prefix(&i->eb, "%.*s/%.*s", (int)o->e.bucket.len, o->e.bucket.at,
                   (int)o->e.key.len, o->e.key.at);
    }
    object_free(&o);
    rt_sem_release(&i->seats);
}

/* Takes `o`. */
static enum err
start_commit(struct import_object *o, struct errbuf *eb)
{
    struct import *i = o->import;
    enum err rc = rt_sem_acquire(&i->seats, DEADLINE_NEVER);

    if (rc == ERR_OK) {
        rc = rt_group_start(&i->group, commit_fiber, o);
        if (rc != ERR_OK)
            rt_sem_release(&i->seats);
    }
    if (rc != ERR_OK) {
        object_free(&o);
        return err_set(eb, rc, "interrupted");
    }
    return ERR_OK;
}

enum err
import_end(struct import *i, struct errbuf *eb)
{
    struct import_object *o = i->object;
    enum err rc;

    i->object = NULL;
    if (o->got != o->e.size) {
        rc = err_set(eb, ERR_INCOMPLETE, "%.*s: %" PRIu64 " of %" PRIu64 " bytes",
                     (int)o->e.key.len, o->e.key.at, o->got, o->e.size);
        object_free(&o);
        return rc;
    }
    if (!import_check(o)) {
        if (o->in_parts)
            rc = disks_upload_abort(i->node->disks, &o->key, &o->upload, eb);
        else
            rc = ERR_OK;
        object_free(&o);
        return rc;
    }
    return start_commit(o, eb);
}

enum err
import_finish(struct import *i, struct errbuf *eb)
{
    object_free(&i->object);
    free(i->refused_bucket);
    i->refused_bucket = NULL;
    rt_group_join(&i->group);
    if (i->rc != ERR_OK)
        *eb = i->eb;
    else if (!i->o->dry_run && i->node->disks != NULL)
        return disks_flush(i->node->disks, eb);
    return i->rc;
}
