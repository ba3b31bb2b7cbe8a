/* backup: everything a node holds that lives nowhere else, as one tar: its state without keys, then each object of the
 * native buckets, whole, as it was at some moment while the backup ran: all of its versions, and before them the uploads in
 * progress (one that is completed meanwhile is in it at least as that). The keys are another page, sealed.
 */
#include "api/admin/backup.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "api/audit.h"
#include "auth/auth.h"
#include "base/mem.h"
#include "meta/dump.h"
#include "object/backup.h"
#include "rt/time.h"
#include "wire/json.h"
#include "wire/tar.h"

#define FORMAT    2u
#define STATE_MAX (16u << 20)

/* ---- members of the node ---- */

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
        /* Bounds the ids that it brings: of versions by the map's, of uploads by the count of starts. */
        json_u64(&j, "epoch", MAX(disks_starts(b->disks), disks_map_epoch(b->disks)));
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
    rc = backup_send_file(b, name, buf_span(&text));
    buf_fini(&text);
    return rc;
}

enum err
backup_dump_meta(struct request *q, bool keys, struct buf *out, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), STATE_MAX);
    struct meta_pair *pairs;
    uint64_t revision;
    uint32_t count;
    enum err rc =
        meta_list(q->api->options.meta, SPAN(""), a, &pairs, &count, &revision, eb);

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
        if (auth_is_secret(pairs[i].key) == keys && !map_is_own_key(pairs[i].key))
            meta_dump_put(out, pairs[i].key, pairs[i].value);
    if (rc == ERR_OK && out->full)
        rc = err_set(eb, ERR_TOO_LARGE, "the node's state is over %u bytes", STATE_MAX);
    arena_free(&a);
    return rc;
}

/* ---- buckets ---- */

/* The buckets there are now; one that is made later is not in it, one that is deleted ends early. */
static enum err
backup_buckets(struct backup *b, const struct map_service *maps)
{
    const struct map *map = map_now(maps);
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
backup_send_all(struct backup *b, struct span state, const struct map_service *maps)
{
    static const char end[2 * TAR_BLOCK];
    enum err rc = send_about(b, ".forebay/backup", false);

    if (rc == ERR_OK)
        rc = backup_send_file(b, ".forebay/state", state);
    if (rc == ERR_OK)
        rc = backup_buckets(b, maps);
    if (rc == ERR_OK && b->damaged.len > 0)
        rc = backup_send_file(b, ".forebay/damaged", buf_span(&b->damaged));
    if (rc == ERR_OK)
        rc = send_about(b, ".forebay/end", true);
    return rc == ERR_OK ? backup_send(b, (struct span){end, sizeof end}) : rc;
}

static enum err
send_to_client(void *http, struct span bytes)
{
    return http_reply_write(http, bytes.at, bytes.len);
}

enum err
admin_backup(struct request *q)
{
    struct backup b;
    struct errbuf eb = {{0}};
    struct buf state;
    enum err rc;

    if (q->api->options.members != NULL)
        return fault_set(
            &q->fault, S3_NotImplemented,
            "A backup of a cluster does not exist yet: this node has its own "
            "objects only. Copy buckets with forebay sync");
    buf_init(&state, STATE_MAX);
    rc = backup_dump_meta(q, false, &state, &eb);
    if (rc == ERR_OK && atomic_exchange(&q->api->backing_up, true))
        rc = err_set(&eb, ERR_BUSY, "a backup is under way: one at a time");
    if (rc != ERR_OK) {
        buf_fini(&state);
        return fault_from(q, rc, &eb);
    }
    AUDIT_CHANGE(q, "backup.begin", rc, L_TEXT("target", "node"));
    backup_init(&b, q->api->options.disks, send_to_client, q->http);
    request_put_ids(q);
    http_header(q->http, "content-type", SPAN("application/x-tar"));
    http_header(q->http, "cache-control", SPAN("no-store"));
    rc = http_reply_begin(q->http, 200, HTTP_CHUNKED);
    if (rc == ERR_OK && http_reply_wants_body(q->http))
        rc = backup_send_all(&b, buf_span(&state), q->api->options.map);
    if (rc == ERR_OK)
        rc = http_reply_end(q->http);
    else
        http_reply_abort(q->http);
    atomic_store(&q->api->backing_up, false);
    backup_fini(&b);
    buf_fini(&state);
    return rc;
}
