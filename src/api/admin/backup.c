/* backup: everything a node holds that lives nowhere else, as one tar: its state without keys, then each object of the
 * native buckets, whole, as it was at some moment while the backup ran. The keys are another page, sealed.
 */
#include <openssl/crypto.h>
#include <stdatomic.h>
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
    bool client_gone;
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
    json_u64(&j, "format", 1);
    json_text(&j, "program", FOREBAY_VERSION);
    json_u64(&j, "time_ms", rt_wall_ns() / 1000000);
    if (end) {
        json_u64(&j, "objects", b->objects);
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

/* ---- objects ---- */

static enum err
read_object(struct backup *b, const struct disks_key *k, const struct row *row, bool give,
            uint32_t *sum, struct errbuf *eb)
{
    struct disks_reader r = {0};
    struct span piece = {"", 1};
    enum err rc = disks_read_begin(b->disks, k, row, 0, row->size, &r, eb);

    *sum = 0;
    buf_clear(&b->whole);
    while (rc == ERR_OK) {
        rc = disks_read_next(&r, DEADLINE_NEVER, &piece, eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        *sum = hash_crc32c(*sum, piece.at, piece.len);
        if (give)
            rc = send(b, piece);
        else if (row->size <= WHOLE_MAX)
            buf_put_span(&b->whole, piece);
        else if (rt_now_ns() - b->sent_ns > WAIT_NS)
            rc = send_file(b, ".forebay/wait", (struct span){"", 0});
    }
    disks_read_end(&r);
    return rc;
}

/* Reads it all before anything of it is sent: what is damaged has no place in a backup. */
static enum err
send_object(struct backup *b, const struct map_bucket *bucket, const struct disks_key *k,
            const struct row *row, struct errbuf *eb)
{
    struct exported e = {.bucket = span_of(bucket->name),
                         .key = k->at.key,
                         .size = row->size,
                         .content = row->content};
    uint32_t sum;
    enum err rc;

    arena_reset(b->arena);
    rc = disks_meta(b->disks, k, row, b->arena, &e.meta, eb);
    if (rc == ERR_OK)
        rc = read_object(b, k, row, false, &e.sum, eb);
    if (rc != ERR_OK)
        return rc;
    buf_clear(&b->text);
    exported_put_head(&b->text, &e, false);
    rc = send(b, buf_span(&b->text));
    if (rc == ERR_OK && row->size > WHOLE_MAX) {
        rc = read_object(b, k, row, true, &sum, eb);
        if (rc != ERR_OK &&
            !b->client_gone) { /* a part of it was sent: the end of this backup */
            b->client_gone = true;
            return ERR_CLOSED;
        }
    } else if (rc == ERR_OK && row->size > 0) {
        rc = send(b, buf_span(&b->whole));
    }
    buf_clear(&b->text);
    tar_put_padding(&b->text, row->size);
    if (rc == ERR_OK && b->text.len > 0)
        rc = send(b, buf_span(&b->text));
    if (rc == ERR_OK) {
        b->objects++;
        b->bytes += row->size;
    }
    return rc;
}

static void
note_damaged(struct backup *b, const struct map_bucket *bucket, struct span key,
             const char *why)
{
    struct json j;

    b->damaged_count++;
    json_begin(&j, &b->damaged);
    json_open_object(&j, NULL);
    json_text(&j, "bucket", bucket->name);
    json_span(&j, "key", key);
    json_text(&j, "why", why);
    json_end(&j);
    buf_putc(&b->damaged, '\n');
}

/* One key of a listing: as it is now, or gone. */
static enum err
backup_key(struct backup *b, const struct map_bucket *bucket, const struct disk_entry *e)
{
    struct disks_key k = {.at = {.bucket = bucket->id,
                                 .birth_name = span_of(bucket->birth_name),
                                 .key = e->key},
                          .copies = bucket->copies};
    struct row row = e->row;
    struct errbuf eb = {{0}};
    enum err rc = ERR_NOT_FOUND;

    for (unsigned i = 0; rc == ERR_NOT_FOUND && !b->client_gone && i < FRESH_LOOKS; i++) {
        if (i > 0 && disks_lookup(b->disks, &k, &row, &eb) == ERR_NOT_FOUND)
            return ERR_OK; /* deleted meanwhile */
        rc = send_object(b, bucket, &k, &row, &eb);
    }
    if (rc == ERR_OK || b->client_gone || rc == ERR_CANCELLED)
        return rc;
    note_damaged(b, bucket, e->key, eb.text);
    return ERR_OK;
}

static enum err
backup_bucket(struct backup *b, const struct map_bucket *bucket)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    char last[DISK_KEY_MAX];
    struct span after = {last, 0};
    struct errbuf eb = {{0}};
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct disk_entry *entries;
        uint32_t count;

        arena_reset(a);
        rc = disks_list(b->disks, bucket->id, bucket->copies, after, after.len == 0, PAGE,
                        a, &entries, &count, &more, &eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
            rc = backup_key(b, bucket, &entries[i]);
        if (rc == ERR_OK && count > 0) {
            after.len = entries[count - 1].key.len;
            memcpy(last, entries[count - 1].key.at, after.len);
        }
    }
    if (eb.text[0] != '\0' && rc != ERR_OK)
        LOG(LOG_ERROR, "backup.failed", "a backup is cut off", L_TEXT("why", eb.text));
    arena_free(&a);
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
