/* backup: everything a node holds that lives nowhere else, as one tar: its state without keys, then each object of the
 * native buckets, whole, as it was at some moment while the backup ran: all of its versions, and before them the uploads in
 * progress (one that is completed meanwhile is in it at least as that). The keys are another page, sealed.
 */
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/admin/admin.h"
#include "api/audit.h"
#include "auth/auth.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/mem.h"
#include "disk/exported.h"
#include "meta/dump.h"
#include "rt/loop.h"
#include "wire/json.h"
#include "wire/seal.h"
#include "wire/tar.h"

#define PAGE      200u
#define FORMAT    2u
#define WHOLE_MAX (4u << 20) /* objects up to here are read once */
#define STATE_MAX (16u << 20)
#define WAIT_NS   5000000000u /* while a large object is read, the client hears of us */
/* An object that is replaced while it is read is looked at again so often. */
#define FRESH_LOOKS 20

struct backup {
    struct request *q;
    struct disks *disks;
    struct arena *arena; /* of one object; owned */
    struct buf whole, text, damaged;
    uint64_t objects, bytes, damaged_count, sent_ns;
    uint64_t older, markers, uploads, parts;
    bool client_gone;
};

/* What is sent of one body: its record, where it lies, and who gives its bytes. */
struct sent {
    struct exported e;
    struct disks_key key;
    struct row row;
};

/* ---- members ---- */

static enum err
send(struct backup *b, struct span bytes)
{
    enum err rc = http_reply_write(b->q->http, bytes.at, bytes.len);

    b->client_gone |= rc != ERR_OK;
    b->sent_ns = rt_now_ns();
    return rc;
}

/* A small member of ours. */
static enum err
send_file(struct backup *b, const char *name, struct span bytes)
{
    struct tar_member t = {.path = span_of(name),
                           .size = bytes.len,
                           .mode = 0600,
                           .mtime_s = (int64_t)(rt_wall_ns() / 1000000000)};
    enum err rc;

    buf_clear(&b->text);
    tar_put_head(&b->text, &t, 0);
    rc = send(b, buf_span(&b->text));
    if (rc == ERR_OK && bytes.len > 0)
        rc = send(b, bytes);
    buf_clear(&b->text);
    tar_put_padding(&b->text, bytes.len);
    return rc == ERR_OK && b->text.len > 0 ? send(b, buf_span(&b->text)) : rc;
}

static enum err
send_about(struct backup *b, const char *name, bool end)
{
    struct buf text;
    struct json j;
    enum err rc;

    buf_init(&text, KIB(4));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_u64(&j, "format", FORMAT);
    json_text(&j, "program", FOREBAY_VERSION);
    json_u64(&j, "time_ms", rt_wall_ns() / 1000000);
    if (!end)
        json_u64(&j, "epoch", disks_epoch(b->disks));
    if (end) {
        json_u64(&j, "objects", b->objects);
        json_u64(&j, "older", b->older);
        json_u64(&j, "markers", b->markers);
        json_u64(&j, "uploads", b->uploads);
        json_u64(&j, "parts", b->parts);
        json_u64(&j, "bytes", b->bytes);
        json_u64(&j, "damaged", b->damaged_count);
    }
    json_end(&j);
    buf_putc(&text, '\n');
    rc = send_file(b, name, buf_span(&text));
    buf_fini(&text);
    return rc;
}

/* Pairs of meta: with keys, or all others. */
static enum err
dump_meta(struct request *q, bool keys, struct buf *out, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), STATE_MAX);
    struct meta_pair *pairs;
    uint64_t revision;
    uint32_t count;
    enum err rc =
        meta_list(q->api->options.meta, SPAN(""), a, &pairs, &count, &revision, eb);

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
        if (auth_is_secret(pairs[i].key) == keys)
            meta_dump_put(out, pairs[i].key, pairs[i].value);
    if (rc == ERR_OK && out->full)
        rc = err_set(eb, ERR_TOO_LARGE, "the node's state is over %u bytes", STATE_MAX);
    arena_free(&a);
    return rc;
}

/* ---- bodies ---- */

static struct disks_key
key_in(const struct map_bucket *bucket, struct span key)
{
    return (struct disks_key){.at = {.bucket = bucket->id,
                                     .birth_name = span_of(bucket->birth_name),
                                     .key = key},
                              .copies = bucket->copies};
}

static enum err
begin_read(struct backup *b, struct sent *s, struct disks_reader *r, struct errbuf *eb)
{
    struct row now;
    enum err rc;

    if (s->e.what != EXPORTED_PART)
        return disks_read_begin(b->disks, &s->key, &s->row, 0, s->row.size, r, eb);
    rc = disks_part_read_begin(b->disks, &s->key, &s->e.upload, s->e.part, &now, r, eb);
    if (rc == ERR_OK && memcmp(&now.content, &s->e.content, sizeof now.content) != 0) {
        disks_read_end(r);
        rc = err_set(eb, ERR_NOT_FOUND, "the part was replaced");
    }
    return rc;
}

/* To its end, which is the reader's. */
static enum err
read_body(struct backup *b, const struct sent *s, struct disks_reader *r, bool give,
          uint32_t *sum, struct errbuf *eb)
{
    struct span piece = {"", 1};
    enum err rc = ERR_OK;

    *sum = 0;
    buf_clear(&b->whole);
    while (rc == ERR_OK) {
        rc = disks_read_next(r, DEADLINE_NEVER, &piece, eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        *sum = hash_crc32c(*sum, piece.at, piece.len);
        if (give)
            rc = send(b, piece);
        else if (s->e.size <= WHOLE_MAX)
            buf_put_span(&b->whole, piece);
        else if (rt_now_ns() - b->sent_ns > WAIT_NS)
            rc = send_file(b, ".forebay/wait", (struct span){"", 0});
    }
    disks_read_end(r);
    return rc;
}

static enum err
send_record(struct backup *b, const struct sent *s)
{
    buf_clear(&b->text);
    exported_put_head(&b->text, &s->e, false);
    return send(b, buf_span(&b->text));
}

/* Reads it all before anything of it is sent: what is damaged has no place in a backup. A large one is read again as it is
 * sent; that is begun before its record goes out, so that one that ended or was replaced meanwhile has left nothing. */
static enum err
send_body(struct backup *b, struct sent *s, struct errbuf *eb)
{
    struct disks_reader r = {0};
    uint32_t sum;
    enum err rc = begin_read(b, s, &r, eb);

    if (rc == ERR_OK)
        rc = read_body(b, s, &r, false, &s->e.sum, eb);
    if (rc == ERR_OK && s->e.size > WHOLE_MAX)
        rc = begin_read(b, s, &r, eb);
    if (rc != ERR_OK)
        return rc;
    rc = send_record(b, s);
    if (rc == ERR_OK && s->e.size > WHOLE_MAX) {
        rc = read_body(b, s, &r, true, &sum, eb);
        if (rc != ERR_OK &&
            !b->client_gone) { /* a part of it was sent: the end of this backup */
            b->client_gone = true;
            return ERR_CLOSED;
        }
    } else if (rc == ERR_OK && s->e.size > 0) {
        rc = send(b, buf_span(&b->whole));
    }
    disks_read_end(&r);
    buf_clear(&b->text);
    tar_put_padding(&b->text, s->e.size);
    if (rc == ERR_OK && b->text.len > 0)
        rc = send(b, buf_span(&b->text));
    if (rc == ERR_OK)
        b->bytes += s->e.size;
    return rc;
}

static void
note_damaged(struct backup *b, const struct sent *s, const char *why)
{
    char text[2 * sizeof s->e.born + 1];
    struct json j;

    b->damaged_count++;
    json_begin(&j, &b->damaged);
    json_open_object(&j, NULL);
    json_span(&j, "bucket", s->e.bucket);
    json_span(&j, "key", s->e.key);
    if (s->e.what == EXPORTED_VERSION) {
        (void)snprintf(text, sizeof text, "%016" PRIx64 "%016" PRIx64, s->e.born.epoch,
                       s->e.born.counter);
        json_text(&j, "version", text);
    }
    if (s->e.what == EXPORTED_UPLOAD || s->e.what == EXPORTED_PART) {
        hex_encode(s->e.upload.id.bytes, sizeof s->e.upload.id.bytes, text);
        json_text(&j, "upload", text);
    }
    if (s->e.what == EXPORTED_PART)
        json_u64(&j, "part", s->e.part);
    json_text(&j, "why", why);
    json_end(&j);
    buf_putc(&b->damaged, '\n');
}

/* Is the backup over for this reason? Else it is one thing that is left out. */
static bool
is_over(const struct backup *b, enum err rc)
{
    return b->client_gone || rc == ERR_CANCELLED;
}

/* ---- objects and their versions ---- */

static enum err
send_object(struct backup *b, struct sent *s, struct errbuf *eb)
{
    enum err rc;

    arena_reset(b->arena);
    rc = disks_meta(b->disks, &s->key, &s->row, b->arena, &s->e.meta, eb);
    if (rc != ERR_OK)
        return rc;
    s->e.size = s->row.size;
    s->e.content = s->row.content;
    if (s->e.what == EXPORTED_VERSION)
        s->e.meta.versioning =
            row_is_null_version(&s->row) ? DISK_SUSPENDED : DISK_VERSIONED;
    else
        s->e.meta.versioning = DISK_UNVERSIONED;
    return send_body(b, s, eb);
}

static enum err
find_again(struct backup *b, struct sent *s, struct errbuf *eb)
{
    bool current;

    return s->e.what == EXPORTED_VERSION
               ? disks_version_find(b->disks, &s->key, &s->e.born, &s->row, &current, eb)
               : disks_lookup(b->disks, &s->key, &s->row, eb);
}

/* One that was listed: as it is now, or gone. */
static enum err
backup_object(struct backup *b, struct sent *s, uint64_t *count)
{
    struct errbuf eb = {{0}};
    enum err rc = ERR_NOT_FOUND;

    for (unsigned i = 0; rc == ERR_NOT_FOUND && !b->client_gone && i < FRESH_LOOKS; i++) {
        if (i > 0 && find_again(b, s, &eb) == ERR_NOT_FOUND)
            return ERR_OK; /* deleted meanwhile */
        rc = send_object(b, s, &eb);
    }
    *count += rc == ERR_OK;
    if (rc == ERR_OK || is_over(b, rc))
        return rc;
    note_damaged(b, s, eb.text);
    return ERR_OK;
}

static enum err
backup_version(struct backup *b, const struct map_bucket *bucket,
               const struct disk_version *v)
{
    bool marker = (v->row.flags & ROW_MARKER) != 0;
    struct sent s = {.e = {.what = marker ? EXPORTED_MARKER : EXPORTED_VERSION,
                           .bucket = span_of(bucket->name),
                           .key = v->key,
                           .older = !v->latest,
                           .born = row_born(&v->row)},
                     .key = key_in(bucket, v->key),
                     .row = v->row};
    enum err rc;

    if (!marker)
        return backup_object(b, &s, v->latest ? &b->objects : &b->older);
    s.e.meta.mtime_ms = v->row.mtime_ms;
    s.e.meta.versioning = row_is_null_version(&v->row) ? DISK_SUSPENDED : DISK_VERSIONED;
    rc = send_record(b, &s);
    b->markers += rc == ERR_OK;
    return rc;
}

static enum err
backup_versions(struct backup *b, const struct map_bucket *bucket, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    char last[DISK_KEY_MAX];
    struct span key = {last, 0};
    struct version after = {0};
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct disk_version *found;
        uint32_t count;

        arena_reset(a);
        rc = disks_version_list(b->disks, bucket->id, bucket->copies, key, key.len == 0,
                                key.len == 0 ? NULL : &after, PAGE, a, &found, &count,
                                &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
            rc = backup_version(b, bucket, &found[i]);
        if (rc == ERR_OK && count > 0) {
            key.len = found[count - 1].key.len;
            memcpy(last, found[count - 1].key.at, key.len);
            after = row_born(&found[count - 1].row);
        }
    }
    arena_free(&a);
    return rc;
}

static enum err
backup_objects(struct backup *b, const struct map_bucket *bucket, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    char last[DISK_KEY_MAX];
    struct span after = {last, 0};
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct disk_entry *entries;
        uint32_t count;

        arena_reset(a);
        rc = disks_list(b->disks, bucket->id, bucket->copies, after, after.len == 0, PAGE,
                        a, &entries, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
            struct sent s = {
                .e = {.bucket = span_of(bucket->name), .key = entries[i].key},
                .key = key_in(bucket, entries[i].key),
                .row = entries[i].row};

            rc = backup_object(b, &s, &b->objects);
        }
        if (rc == ERR_OK && count > 0) {
            after.len = entries[count - 1].key.len;
            memcpy(last, entries[count - 1].key.at, after.len);
        }
    }
    arena_free(&a);
    return rc;
}

/* ---- uploads in progress ---- */

/* The first part behind s->e.part, as it is now. *found false: there is none, or the upload has ended. */
static enum err
next_part(struct backup *b, struct sent *s, bool *found, struct errbuf *eb)
{
    struct disk_part *p;
    uint32_t count;
    bool more;
    enum err rc;

    arena_reset(b->arena);
    rc = disks_part_list(b->disks, &s->key, &s->e.upload, s->e.part, 1, b->arena, &p,
                         &count, &more, eb);
    *found = rc == ERR_OK && count > 0;
    if (!*found)
        return rc == ERR_NO_UPLOAD ? ERR_OK : rc;
    s->e.part = p->number;
    s->e.size = p->size;
    s->e.content = p->content;
    s->e.meta = (struct object_meta){.mtime_ms = p->mtime_ms,
                                     .checksum_algorithm = p->checksum_algorithm,
                                     .checksum = p->checksum};
    memcpy(s->e.meta.md5, p->md5, sizeof s->e.meta.md5);
    return ERR_OK;
}

static enum err
backup_parts(struct backup *b, struct sent *s, struct errbuf *eb)
{
    enum err rc = ERR_OK;
    bool found = true;

    s->e.what = EXPORTED_PART;
    while (rc == ERR_OK && found) {
        uint32_t before = s->e.part;

        rc = ERR_NOT_FOUND;
        for (unsigned i = 0; rc == ERR_NOT_FOUND && i < FRESH_LOOKS; i++) {
            s->e.part = before;
            rc = next_part(b, s, &found, eb);
            if (rc == ERR_OK && found)
                rc = send_body(b, s, eb);
        }
        b->parts += rc == ERR_OK && found;
        if (rc == ERR_NO_UPLOAD) /* it has ended meanwhile */
            return ERR_OK;
        if (rc == ERR_OK || is_over(b, rc))
            continue;
        note_damaged(b, s, eb->text);
        rc = ERR_OK;
    }
    return rc;
}

static enum err
backup_upload(struct backup *b, const struct map_bucket *bucket,
              const struct disk_upload *u, struct errbuf *eb)
{
    struct sent s = {.e = {.what = EXPORTED_UPLOAD,
                           .bucket = span_of(bucket->name),
                           .key = u->key,
                           .upload = u->id},
                     .key = key_in(bucket, u->key)};
    enum err rc;

    arena_reset(b->arena);
    rc = disks_upload_meta(b->disks, &s.key, &u->id, b->arena, &s.e.meta, eb);
    if (rc == ERR_NO_UPLOAD)
        return ERR_OK;
    if (rc != ERR_OK && !is_over(b, rc)) {
        note_damaged(b, &s, eb->text);
        return ERR_OK;
    }
    if (rc == ERR_OK)
        rc = send_record(b, &s);
    b->uploads += rc == ERR_OK;
    return rc == ERR_OK ? backup_parts(b, &s, eb) : rc;
}

static enum err
backup_uploads(struct backup *b, const struct map_bucket *bucket, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    char last[DISK_KEY_MAX];
    struct span key = {last, 0};
    struct upload_id after = {{{0}}};
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct disk_upload *found;
        uint32_t count;

        arena_reset(a);
        rc = disks_upload_list(b->disks, bucket->id, bucket->copies, key,
                               key.len == 0 ? NULL : &after, PAGE, a, &found, &count,
                               &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
            rc = backup_upload(b, bucket, &found[i], eb);
        if (rc == ERR_OK && count > 0) {
            key.len = found[count - 1].key.len;
            memcpy(last, found[count - 1].key.at, key.len);
            after = found[count - 1].id;
        }
    }
    arena_free(&a);
    return rc;
}

/* ---- buckets ---- */

static enum err
backup_bucket(struct backup *b, const struct map_bucket *bucket)
{
    struct errbuf eb = {{0}};
    enum err rc = backup_uploads(b, bucket, &eb);

    if (rc == ERR_OK)
        rc = bucket->versioning == MAP_UNVERSIONED ? backup_objects(b, bucket, &eb)
                                                   : backup_versions(b, bucket, &eb);
    if (eb.text[0] != '\0' && rc != ERR_OK)
        LOG(LOG_ERROR, "backup.failed", "a backup is cut off", L_TEXT("why", eb.text));
    return rc;
}

/* The buckets there are now; one that is made later is not in it, one that is deleted ends early. */
static enum err
backup_buckets(struct backup *b)
{
    const struct map *map = map_now(b->q->api->options.map);
    uint32_t count = map_bucket_count(map);
    const struct map_bucket **held = xcalloc(count + 1, sizeof(struct map_bucket *));
    enum err rc = ERR_OK;

    for (uint32_t i = 0; i < count; i++)
        held[i] = map_bucket_ref(map_bucket_at(map, i));
    for (uint32_t i = 0; i < count; i++) {
        if (rc == ERR_OK && !held[i]->cached)
            rc = backup_bucket(b, held[i]);
        map_bucket_drop(&held[i]);
    }
    free(held);
    return rc;
}

static enum err
send_all(struct backup *b, struct span state)
{
    static const char end[2 * TAR_BLOCK];
    enum err rc = send_about(b, ".forebay/backup", false);

    if (rc == ERR_OK)
        rc = send_file(b, ".forebay/state", state);
    if (rc == ERR_OK)
        rc = backup_buckets(b);
    if (rc == ERR_OK && b->damaged.len > 0)
        rc = send_file(b, ".forebay/damaged", buf_span(&b->damaged));
    if (rc == ERR_OK)
        rc = send_about(b, ".forebay/end", true);
    return rc == ERR_OK ? send(b, (struct span){end, sizeof end}) : rc;
}

enum err
admin_backup(struct request *q)
{
    struct backup b = {.q = q, .disks = q->api->options.disks};
    struct errbuf eb = {{0}};
    struct buf state;
    enum err rc;

    buf_init(&state, STATE_MAX);
    rc = dump_meta(q, false, &state, &eb);
    if (rc == ERR_OK && atomic_exchange(&q->api->backing_up, true))
        rc = err_set(&eb, ERR_BUSY, "a backup is under way: one at a time");
    if (rc != ERR_OK) {
        buf_fini(&state);
        return fault_from(q, rc, &eb);
    }
    AUDIT_CHANGE(q, "backup.begin", rc, L_TEXT("target", "node"));
    b.arena = arena_new(4096, MIB(1));
    buf_init(&b.whole, WHOLE_MAX);
    buf_init(&b.text, KIB(64));
    buf_init(&b.damaged, MIB(16));
    request_put_ids(q);
    http_header(q->http, "content-type", SPAN("application/x-tar"));
    http_header(q->http, "cache-control", SPAN("no-store"));
    rc = http_reply_begin(q->http, 200, HTTP_CHUNKED);
    if (rc == ERR_OK && http_reply_wants_body(q->http))
        rc = send_all(&b, buf_span(&state));
    if (rc == ERR_OK)
        rc = http_reply_end(q->http);
    else
        http_reply_abort(q->http);
    atomic_store(&q->api->backing_up, false);
    buf_fini(&b.damaged);
    buf_fini(&b.text);
    buf_fini(&b.whole);
    buf_fini(&state);
    arena_free(&b.arena);
    return rc;
}

/* ---- keys ---- */

/* In the clear: the passphrase seals all of it, and another node has another key. */
static enum err
put_set(void *out, const char *name, struct span plain, struct errbuf *eb)
{
    char *key = xasprintf("file:secrets/%s", name);

    (void)eb;
    meta_dump_put(out, span_of(key), plain);
    free(key);
    return ERR_OK;
}

static enum err
gather_keys(struct request *q, struct buf *out, struct errbuf *eb)
{
    enum err rc = dump_meta(q, true, out, eb);

    if (rc == ERR_OK)
        rc = meta_dump_file(out, q->api->options.dot, "", "credentials", eb);
    if (rc == ERR_OK)
        rc = secrets_each(cloud_secrets(q->api->options.cloud), put_set, out, eb);
    return rc;
}

struct seal_job {
    struct span passphrase, plain;
    struct buf *out;
    struct errbuf eb;
    enum err rc;
};

static void
seal_work(void *arg)
{
    struct seal_job *j = arg;

    j->rc = seal(j->passphrase, j->plain, j->out, &j->eb);
}

/* The body of the request is the passphrase. */
enum err
admin_backup_keys(struct request *q)
{
    struct seal_job job = {.rc = ERR_OK};
    struct buf plain, sealed;
    struct errbuf eb = {{0}};
    enum err rc;

    if (!q->http->is_tls && !q->http->is_loopback)
        return fault_set(&q->fault, S3_AccessDenied,
                         "Keys are given out over TLS or on loopback only");
    rc = http_body_all(q->http, SEAL_PASSPHRASE_MAX, &job.passphrase, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    buf_init(&plain, SEAL_MAX);
    buf_init(&sealed, SEAL_MAX + KIB(4));
    rc = gather_keys(q, &plain, &eb);
    job.plain = buf_span(&plain);
    job.out = &sealed;
    if (rc == ERR_OK)
        rc = rt_blocking(seal_work, &job, DEADLINE_NEVER);
    if (rc == ERR_OK && job.rc != ERR_OK) {
        rc = job.rc;
        eb = job.eb;
    }
    if (plain.len > 0)
        OPENSSL_cleanse(plain.at, plain.len);
    OPENSSL_cleanse((char *)(uintptr_t)job.passphrase.at, job.passphrase.len);
    buf_fini(&plain);
    AUDIT_CHANGE(q, "backup.keys", rc, L_TEXT("target", "keys of users and remotes"));
    if (rc == ERR_OK) {
        request_put_ids(q);
        http_header(q->http, "content-type", SPAN("application/octet-stream"));
        http_header(q->http, "cache-control", SPAN("no-store"));
        http_reply(q->http, 200, buf_span(&sealed));
    }
    buf_fini(&sealed);
    return rc == ERR_OK ? ERR_OK : fault_from(q, rc, &eb);
}
