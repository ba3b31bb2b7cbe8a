/* upload_parts: a large file in concurrent parts, resumed after an interruption: parts that the server lists and whose MD5
 * matches the file are not sent again. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cli/note.h"
#include "cli/transfer.h"
#include "wire/etag.h"

struct parts {
    struct flow *f;
    const struct item *it;
    struct files_file *file;
    struct arena *a;
    char *note_path; /* owned */
    struct note note;
    struct span upload_id;
    uint32_t count, next;
    struct s3_part *done;
    bool *have; /* `done` is already the server's */
    enum err rc;
    struct errbuf *eb;
    struct s3_part_page page; /* of a listing */
};

static uint64_t
part_size(const struct parts *w, uint32_t i)
{
    uint64_t offset = i * w->note.part_bytes;

    return MIN(w->note.part_bytes, w->note.size - offset);
}

/* ---- going on ---- */

static enum err
list_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct parts *w = arg;
    uint32_t after = w->page.count > 0 ? w->page.parts[w->page.count - 1].number : 0;

    return s3_part_list(w->f->s->s3, span_of(w->it->to_bucket), span_of(w->it->to),
                        w->upload_id, after, 1000, w->a, &w->page, f, eb);
}

/* Is this part of the server the file's? */
static bool
is_same_part(struct parts *w, const struct s3_part_entry *e)
{
    unsigned char md5[16];
    char hex[33];

    if (e->number < 1 || e->number > w->count || e->size != part_size(w, e->number - 1) ||
        e->etag.len != 32)
        return false;
    if (files_md5(w->file, (e->number - 1) * w->note.part_bytes, e->size, md5, w->eb) !=
        ERR_OK)
        return false;
    hex_encode(md5, 16, hex);
    return span_is(e->etag, hex);
}

/* ERR_NO_UPLOAD: it is gone; start from the beginning. */
static enum err
take_up(struct parts *w)
{
    enum err rc;

    do {
        rc = flow_try(w->f, list_attempt, w, w->eb);
        for (uint32_t i = 0; rc == ERR_OK && i < w->page.count; i++) {
            const struct s3_part_entry *e = &w->page.parts[i];

            if (!is_same_part(w, e))
                continue;
            w->have[e->number - 1] = true;
            w->done[e->number - 1] = (struct s3_part){e->number, e->etag};
            progress_resumed(&w->f->progress, e->size);
        }
    } while (rc == ERR_OK && w->page.truncated && w->page.count > 0);
    return rc;
}

/* ---- beginning and ending ---- */

static enum err
upload_parts_begin_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct parts *w = arg;
    struct s3_header headers[PUT_HEADERS_MAX];
    uint32_t count =
        put_headers_of(w->f->put_headers, transfer_type(w->it->from), headers);

    return s3_upload_begin(w->f->s->s3, span_of(w->it->to_bucket), span_of(w->it->to),
                           headers, count, w->a, &w->upload_id, f, eb);
}

static enum err
upload_parts_end_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct parts *w = arg;
    struct span etag;

    return s3_upload_complete(w->f->s->s3, span_of(w->it->to_bucket), span_of(w->it->to),
                              w->upload_id, w->done, w->count, w->a, &etag, f, eb);
}

static void
upload_parts_forget(struct parts *w, bool abort_it)
{
    struct s3_failure f;
    struct errbuf eb = {{0}};

    if (abort_it)
        (void)!s3_upload_abort(w->f->s->s3, span_of(w->it->to_bucket), span_of(w->it->to),
                               span_of(w->note.id), &f, &eb);
    note_drop(w->note_path);
}

static void
arrays(struct parts *w)
{
    w->count = (uint32_t)((w->note.size + w->note.part_bytes - 1) / w->note.part_bytes);
    w->done = arena_alloc(w->a, w->count * sizeof *w->done);
    w->have = arena_alloc(w->a, w->count * sizeof *w->have);
}

static enum err
begin_anew(struct parts *w)
{
    enum err rc;

    w->note = (struct note){
        .size = w->file->size, .mtime_ns = w->file->mtime_ns, .part_bytes = PART_BYTES};
    while ((w->note.size + w->note.part_bytes - 1) / w->note.part_bytes > PARTS_MAX)
        w->note.part_bytes *= 2;
    arrays(w);
    rc = flow_try(w->f, upload_parts_begin_attempt, w, w->eb);
    if (rc != ERR_OK)
        return rc;
    if (w->upload_id.len < sizeof w->note.id) {
        memcpy(w->note.id, w->upload_id.at, w->upload_id.len);
        w->note.id[w->upload_id.len] = '\0';
        note_save(w->note_path, &w->note);
    }
    return ERR_OK;
}

static enum err
upload_parts_begin(struct parts *w)
{
    /* An upload that began with other headers is another one. */
    const struct put_headers *given = w->f->put_headers;
    const char *names[] = {w->f->s->endpoint,
                           w->it->to_bucket,
                           w->it->to,
                           w->it->from,
                           given != NULL && given->count > 0 ? given->text : NULL,
                           NULL};
    char *real = realpath(w->it->from, NULL);
    enum err rc = ERR_NO_UPLOAD;

    names[3] = real != NULL ? real : w->it->from;
    w->note_path = note_path("upload", names);
    free(real);
    if (note_load(w->note_path, &w->note)) {
        if (w->f->restart || w->note.size != w->file->size ||
            w->note.mtime_ns != w->file->mtime_ns) {
            upload_parts_forget(w, true);
        } else {
            w->upload_id = span_of(w->note.id);
            arrays(w);
            rc = take_up(w);
            if (rc == ERR_NO_UPLOAD || rc == ERR_NOT_FOUND)
                upload_parts_forget(w, false);
        }
    }
    return rc == ERR_NO_UPLOAD || rc == ERR_NOT_FOUND ? begin_anew(w) : rc;
}

/* ---- the parts ---- */

static void
send_parts(void *arg)
{
    struct parts *w = arg;

    while (w->rc == ERR_OK && w->next < w->count) {
        uint32_t i = w->next++;
        struct s3_put put = {.bucket = span_of(w->it->to_bucket),
                             .key = span_of(w->it->to),
                             .size = part_size(w, i),
                             .upload_id = w->upload_id,
                             .part_number = i + 1};
        struct transfer_piece from = {.file = w->file, .offset = i * w->note.part_bytes};
        struct errbuf eb = {{0}};
        enum err rc;

        if (w->have[i])
            continue;
        rc = transfer_put(w->f, &put, &from, w->a, &w->done[i].etag, &eb);
        w->done[i].number = i + 1;
        if (rc != ERR_OK && w->rc == ERR_OK) {
            w->rc = rc;
            *w->eb = eb;
        }
    }
}

enum err
transfer_up_parts(struct flow *f, const struct item *it, struct files_file *file,
                  struct errbuf *eb)
{
    struct parts w = {.f = f, .it = it, .file = file, .eb = eb};
    struct rt_group group;
    enum err rc;

    w.a = arena_new(KIB(64), MIB(64));
    rc = upload_parts_begin(&w);
    if (rc == ERR_OK) {
        rt_group_begin(&group);
        for (int i = 1; i < PARTS_AT_ONCE; i++)
            if (rt_group_start(&group, send_parts, &w) != ERR_OK)
                break; /* fewer at once, then */
        send_parts(&w);
        rt_group_join(&group);
        rc = w.rc;
    }
    if (rc == ERR_OK)
        rc = files_unchanged(file, eb);
    if (rc == ERR_OK)
        rc = flow_try(f, upload_parts_end_attempt, &w, eb);
    if (rc == ERR_OK)
        note_drop(w.note_path);
    else if (rc == ERR_NO_UPLOAD)
        upload_parts_forget(&w, false);
    else if (rc == ERR_INCOMPLETE &&
             w.note_path != NULL) /* the file changes: nothing to go on with */
        upload_parts_forget(&w, true);
    free(w.note_path);
    arena_free(&w.a);
    return rc;
}
