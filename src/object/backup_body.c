/* The record and the bytes of one item of a backup, as members of the tar. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/hash.h"
#include "base/mem.h"
#include "object/backup_internal.h"
#include "rt/time.h"
#include "wire/json.h"
#include "wire/tar.h"

#define WAIT_NS                                                                          \
    5000000000u /* while a large object is read, the client gets a sign of life */

void
backup_init(struct backup *b, struct disks *disks,
            enum err (*send)(void *arg, struct span bytes), void *arg)
{
    assert(send != NULL);
    *b = (struct backup){.send = send, .arg = arg, .disks = disks};
    b->arena = arena_new(4096, MIB(1));
    buf_init(&b->whole, BACKUP_WHOLE_MAX);
    buf_init(&b->text, KIB(64));
    buf_init(&b->damaged, MIB(16));
}

void
backup_fini(struct backup *b)
{
    buf_fini(&b->damaged);
    buf_fini(&b->text);
    buf_fini(&b->whole);
    arena_free(&b->arena);
}

/* ---- members ---- */

enum err
backup_send(struct backup *b, struct span bytes)
{
    enum err rc = b->send(b->arg, bytes);

    b->receiver_gone |= rc != ERR_OK;
    b->sent_ns = rt_now_ns();
    return rc;
}

enum err
backup_send_file(struct backup *b, const char *name, struct span bytes)
{
    struct tar_member t = {.path = span_of(name),
                           .size = bytes.len,
                           .mode = 0600,
                           .mtime_s = (int64_t)(rt_wall_ns() / 1000000000)};
    enum err rc;

    buf_clear(&b->text);
    tar_put_head(&b->text, &t, 0);
    rc = backup_send(b, buf_span(&b->text));
    if (rc == ERR_OK && bytes.len > 0)
        rc = backup_send(b, bytes);
    buf_clear(&b->text);
    tar_put_padding(&b->text, bytes.len);
    return rc == ERR_OK && b->text.len > 0 ? backup_send(b, buf_span(&b->text)) : rc;
}

/* ---- bodies ---- */

static enum err
begin_read(struct backup *b, struct backup_item *s, struct disks_reader *r,
           struct errbuf *eb)
{
    struct entry now;
    enum err rc;

    if (s->e.what != EXPORTED_PART)
        return disks_read_begin(b->disks, &s->key, &s->entry, 0, s->entry.size, r, eb);
    rc = disks_part_read_begin(b->disks, &s->key, &s->e.upload, s->e.part, &now, r, eb);
    if (rc == ERR_OK && memcmp(&now.content, &s->e.content, sizeof now.content) != 0) {
        disks_read_end(r);
        rc = err_set(eb, ERR_NOT_FOUND, "the part was replaced");
    }
    return rc;
}

/* To its end, which is the reader's. */
static enum err
backup_read_body(struct backup *b, const struct backup_item *s, struct disks_reader *r,
                 bool give, uint32_t *sum, struct errbuf *eb)
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
            rc = backup_send(b, piece);
        else if (s->e.size <= BACKUP_WHOLE_MAX)
            buf_put_span(&b->whole, piece);
        else if (rt_now_ns() - b->sent_ns > WAIT_NS)
            rc = backup_send_file(b, ".forebay/wait", (struct span){"", 0});
    }
    disks_read_end(r);
    return rc;
}

enum err
backup_send_record(struct backup *b, const struct backup_item *s)
{
    buf_clear(&b->text);
    exported_put_head(&b->text, &s->e, false);
    return backup_send(b, buf_span(&b->text));
}

/* A large one is read again as it is sent; that is begun before its record goes out, so that one that ended or was
 * replaced meanwhile has left nothing. */
enum err
backup_send_body(struct backup *b, struct backup_item *s, struct errbuf *eb)
{
    struct disks_reader r = {0};
    uint32_t sum;
    enum err rc = begin_read(b, s, &r, eb);

    if (rc == ERR_OK)
        rc = backup_read_body(b, s, &r, false, &s->e.sum, eb);
    if (rc == ERR_OK && s->e.size > BACKUP_WHOLE_MAX)
        rc = begin_read(b, s, &r, eb);
    if (rc != ERR_OK)
        return rc;
    rc = backup_send_record(b, s);
    if (rc == ERR_OK && s->e.size > BACKUP_WHOLE_MAX) {
        rc = backup_read_body(b, s, &r, true, &sum, eb);
        if (rc != ERR_OK &&
            !b->receiver_gone) { /* a part of it was sent: the end of this backup */
            b->receiver_gone = true;
            return ERR_CLOSED;
        }
    } else if (rc == ERR_OK && s->e.size > 0) {
        rc = backup_send(b, buf_span(&b->whole));
    }
    disks_read_end(&r);
    buf_clear(&b->text);
    tar_put_padding(&b->text, s->e.size);
    if (rc == ERR_OK && b->text.len > 0)
        rc = backup_send(b, buf_span(&b->text));
    if (rc == ERR_OK)
        b->bytes += s->e.size;
    return rc;
}

void
backup_record_damage(struct backup *b, const struct backup_item *s, const char *why)
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
