/* between: copies an object through this client from one server to another, or to the same one if it cannot copy by itself, in
 * the parts of the source: so the target has the same ETag, which verifies it. An object without parts is one PUT; a very large
 * one is sent in parts of 16 MiB, each verified. A note records the parts that have arrived, so that the same command resumes. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cli/copy_headers.h"
#include "cli/note.h"
#include "cli/transfer.h"
#include "wire/etag.h"

#define PIECE (256u << 10)
#define WHOLE_MAX                                                                        \
    (256ull << 20) /* one without parts goes in one piece, and keeps its ETag */

struct between {
    struct flow *f;
    const struct item *it;
    struct arena *a;
    struct s3_object_info info; /* of the source */
    struct copy_headers copy_headers;
    uint64_t source_part; /* bytes of its own parts; 0: none, or unknown */

    char *note_path; /* owned */
    struct note note;
    struct span upload_id, etag;
    struct s3_part_page page; /* of a listing */
    uint32_t count, next;
    struct s3_part *done;
    enum err rc;
    struct errbuf *eb;
};

/* ---- what it is ---- */

static enum err
between_head_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct between *b = arg;

    return s3_head(b->f->s->s3, span_of(b->it->from_bucket), span_of(b->it->from), b->a,
                   &b->info, f, eb);
}

static enum err
between_part_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct between *b = arg;
    struct s3_object_info info;
    enum err rc = s3_head_part(b->f->s->s3, span_of(b->it->from_bucket),
                               span_of(b->it->from), 1, b->a, &info, f, eb);

    if (rc == ERR_OK && info.partial)
        b->source_part = info.body_length;
    return rc;
}

static void
learn_parts(struct between *b)
{
    unsigned char md5[16];
    struct errbuf eb = {{0}};
    unsigned parts = 0;

    if (!etag_parse(b->info.etag, md5, &parts) || parts == 0)
        return;
    if (parts == 1)
        b->source_part = b->info.size;
    else
        (void)!flow_try(b->f, between_part_attempt, b, &eb);
    /* Parts of different sizes are not told apart from here: then ours. */
    if (b->source_part == 0 ||
        (b->info.size + b->source_part - 1) / b->source_part != parts)
        b->source_part = 0;
}

/* ---- bytes ---- */

/* One part, or the whole. */
struct passing {
    struct between *b;
    struct s3_put put;
    uint64_t first;
    struct arena *a; /* of the attempt */
    char *room;
    struct span *etag; /* in b->a */
};

static enum err
pass_bytes(struct passing *p, struct s3_call *in, struct s3_call *out, struct digest *md5,
           uint64_t *passed, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        size_t n = 0;

        rc = s3_read(in, p->room, PIECE, &n, eb);
        if (rc == ERR_OK && (n == 0) != (*passed == p->put.size))
            rc = err_set(eb, ERR_INCOMPLETE, "the source sent a wrong length");
        if (rc != ERR_OK || n == 0)
            break;
        digest_add(md5, p->room, n);
        rc = s3_write(out, p->room, n, eb);
        *passed += n;
        flow_bytes(p->b->f, n);
    }
    return rc;
}

static enum err
check_etag(const struct passing *p, struct digest *md5, struct errbuf *eb)
{
    unsigned char sum[DIGEST_MAX];
    char hex[33];

    digest_end(md5, sum);
    hex_encode(sum, 16, hex);
    if (p->etag->len == 32 && !span_is(*p->etag, hex))
        return err_set(eb, ERR_BAD_DIGEST,
                       "the target's ETag is \"%.*s\", the sent bytes have \"%s\"",
                       SPAN_ARG(*p->etag), hex);
    if (p->put.upload_id.len == 0 && p->b->info.etag.len == 32 &&
        !span_is(p->b->info.etag, hex))
        return err_set(eb, ERR_BAD_DIGEST,
                       "the source's ETag is \"%.*s\", what it sent has \"%s\"",
                       SPAN_ARG(p->b->info.etag), hex);
    return ERR_OK;
}

/* If-Match detects another version if there is an ETag and the source supports it; else only length and time do. */
static enum err
check_source(const struct between *b, const struct s3_object_info *now, struct errbuf *eb)
{
    bool same = b->info.etag.len > 0 ? span_eq(now->etag, b->info.etag)
                                     : span_eq(now->last_modified, b->info.last_modified);

    if (same && now->size == b->info.size)
        return ERR_OK;
    return err_set(eb, ERR_PRECONDITION,
                   "\"%s\" changed while it was copied: copy it again", b->it->from);
}

static enum err
pass_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct passing *p = arg;
    struct between *b = p->b;
    struct s3_get get = {.bucket = span_of(b->it->from_bucket),
                         .key = span_of(b->it->from),
                         .range = b->info.size > 0,
                         .first = p->first,
                         .last = p->first + p->put.size - 1,
                         .if_match = b->info.etag};
    struct s3_object_info info;
    struct s3_call *in = NULL, *out = NULL;
    struct digest md5;
    uint64_t passed = 0;
    enum err rc;

    arena_reset(p->a);
    digest_init(&md5, DIGEST_MD5);
    rc = s3_get_begin(b->f->s->s3, &get, p->a, &info, &in, f, eb);
    if (rc == ERR_OK) {
        f->retry = false;
        rc = check_source(b, &info, eb);
    }
    if (rc == ERR_OK) {
        f->retry = true; /* failures from here on are retried, except a cancellation */
        rc = s3_put_begin(b->f->s->to, &p->put, &out, eb);
        if (rc == ERR_OK)
            rc = pass_bytes(p, in, out, &md5, &passed, eb);
        f->retry = rc != ERR_CANCELLED;
    }
    if (rc == ERR_OK)
        rc = s3_put_finish(out, b->a, p->etag, f, eb);
    s3_end(&out);
    s3_end(&in);
    if (rc == ERR_OK) {
        rc = check_etag(p, &md5, eb);
        f->retry = rc != ERR_OK;
    } else {
        digest_fini(&md5);
    }
    if (rc != ERR_OK)
        progress_back(&b->f->progress, passed);
    return rc;
}

static enum err
between_pass(struct between *b, const struct s3_put *put, uint64_t first,
             struct span *etag, struct errbuf *eb)
{
    struct passing p = {.b = b, .put = *put, .first = first, .etag = etag};
    enum err rc;

    p.a = arena_new(KIB(16), MIB(1));
    p.room = xmalloc(PIECE);
    rc = flow_try(b->f, pass_attempt, &p, eb);
    free(p.room);
    arena_free(&p.a);
    return rc;
}

static enum err
whole(struct between *b)
{
    struct s3_put put = {.bucket = span_of(b->it->to_bucket),
                         .key = span_of(b->it->to),
                         .size = b->info.size,
                         .headers = b->copy_headers.headers,
                         .header_count = b->copy_headers.count};

    return between_pass(b, &put, 0, &b->etag, b->eb);
}

/* ---- in parts ---- */

static uint64_t
part_size(const struct between *b, uint32_t i)
{
    return MIN(b->note.part_bytes, b->note.size - i * b->note.part_bytes);
}

static bool
between_has(const struct between *b, uint32_t i)
{
    return b->note.have[i / 8] >> i % 8 & 1;
}

static void
pass_parts(void *arg)
{
    struct between *b = arg;

    while (b->rc == ERR_OK && b->next < b->count) {
        uint32_t i = b->next++;
        struct s3_put put = {.bucket = span_of(b->it->to_bucket),
                             .key = span_of(b->it->to),
                             .size = part_size(b, i),
                             .upload_id = b->upload_id,
                             .part_number = i + 1};
        struct errbuf eb = {{0}};
        enum err rc;

        if (b->done[i].number != 0)
            continue;
        rc = between_pass(b, &put, i * b->note.part_bytes, &b->done[i].etag, &eb);
        if (rc == ERR_OK) {
            b->done[i].number = i + 1;
            b->note.have[i / 8] |= (unsigned char)(1u << i % 8);
            note_save(b->note_path, &b->note);
        } else if (b->rc == ERR_OK) {
            b->rc = rc;
            *b->eb = eb;
        }
    }
}

static enum err
list_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct between *b = arg;
    uint32_t after = b->page.count > 0 ? b->page.parts[b->page.count - 1].number : 0;

    return s3_part_list(b->f->s->to, span_of(b->it->to_bucket), span_of(b->it->to),
                        b->upload_id, after, 1000, b->a, &b->page, f, eb);
}

/* Parts that were verified when they were sent, and that the target still has. ERR_NO_UPLOAD: it has nothing. */
static enum err
take_up(struct between *b)
{
    enum err rc;

    do {
        rc = flow_try(b->f, list_attempt, b, b->eb);
        for (uint32_t i = 0; rc == ERR_OK && i < b->page.count; i++) {
            const struct s3_part_entry *e = &b->page.parts[i];

            if (e->number < 1 || e->number > b->count || !between_has(b, e->number - 1) ||
                e->size != part_size(b, e->number - 1))
                continue;
            b->done[e->number - 1] = (struct s3_part){e->number, e->etag};
            progress_resumed(&b->f->progress, e->size);
        }
    } while (rc == ERR_OK && b->page.truncated && b->page.count > 0);
    return rc;
}

static enum err
between_begin_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct between *b = arg;

    return s3_upload_begin(b->f->s->to, span_of(b->it->to_bucket), span_of(b->it->to),
                           b->copy_headers.headers, b->copy_headers.count, b->a,
                           &b->upload_id, f, eb);
}

static enum err
between_end_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct between *b = arg;

    return s3_upload_complete(b->f->s->to, span_of(b->it->to_bucket), span_of(b->it->to),
                              b->upload_id, b->done, b->count, b->a, &b->etag, f, eb);
}

static void
between_forget(struct between *b, bool abort_it)
{
    struct errbuf eb = {{0}};
    struct s3_failure f;

    if (abort_it)
        (void)!s3_upload_abort(b->f->s->to, span_of(b->it->to_bucket), span_of(b->it->to),
                               b->upload_id, &f, &eb);
    note_drop(b->note_path);
}

static enum err
begin_anew(struct between *b)
{
    enum err rc;

    memset(b->note.have, 0, sizeof b->note.have);
    memset(b->done, 0, b->count * sizeof *b->done);
    b->page = (struct s3_part_page){0};
    rc = flow_try(b->f, between_begin_attempt, b, b->eb);
    if (rc != ERR_OK || b->upload_id.len >= sizeof b->note.id)
        return rc;
    memcpy(b->note.id, b->upload_id.at, b->upload_id.len);
    b->note.id[b->upload_id.len] = '\0';
    note_save(b->note_path, &b->note);
    return ERR_OK;
}

static enum err
between_begin(struct between *b)
{
    char *etag = xmemdup0(b->info.etag.at, b->info.etag.len);
    const char *names[] = {b->f->s->endpoint,    b->it->from_bucket, b->it->from, etag,
                           b->f->s->to_endpoint, b->it->to_bucket,   b->it->to,   NULL};
    struct note old;
    enum err rc = ERR_NO_UPLOAD;

    b->note =
        (struct note){.size = b->info.size,
                      .part_bytes = b->source_part > 0 ? b->source_part : PART_BYTES};
    while ((b->note.size + b->note.part_bytes - 1) / b->note.part_bytes > PARTS_MAX)
        b->note.part_bytes *= 2;
    b->count = (uint32_t)((b->note.size + b->note.part_bytes - 1) / b->note.part_bytes);
    b->done = arena_alloc(b->a, b->count * sizeof *b->done);
    memset(b->done, 0, b->count * sizeof *b->done);
    b->note_path = note_path("between", names);
    free(etag);
    if (note_load(b->note_path, &old) && old.size == b->note.size &&
        old.part_bytes == b->note.part_bytes && old.id[0] != '\0') {
        b->note = old;
        b->upload_id = arena_span(b->a, span_of(old.id));
        if (b->f->restart)
            between_forget(b, true);
        else
            rc = take_up(b);
    }
    if (rc == ERR_NO_UPLOAD || rc == ERR_NOT_FOUND)
        rc = begin_anew(b);
    return rc;
}

/* The same parts: the same ETag, where both servers make them of MD5s. */
static enum err
check_whole(struct between *b)
{
    unsigned char md5[16];
    unsigned of_source, of_target;

    if (b->source_part == 0 || !etag_parse(b->info.etag, md5, &of_source) ||
        !etag_parse(b->etag, md5, &of_target) || of_target != of_source ||
        b->info.sse_kms.len > 0 || span_eq(b->info.etag, b->etag))
        return ERR_OK;
    return err_set(b->eb, ERR_BAD_DIGEST,
                   "the target has ETag \"%.*s\", the source \"%.*s\"", SPAN_ARG(b->etag),
                   SPAN_ARG(b->info.etag));
}

static enum err
in_parts(struct between *b)
{
    struct rt_group group;
    struct rt_shield shield;
    enum err rc = between_begin(b);

    if (rc == ERR_OK) {
        rt_group_begin(&group);
        for (int i = 1; i < PARTS_AT_ONCE; i++)
            if (rt_group_start(&group, pass_parts, b) != ERR_OK)
                break; /* fewer at once, then */
        pass_parts(b);
        rt_group_join(&group);
        rc = b->rc;
    }
    if (rc == ERR_OK)
        rc = flow_try(b->f, between_end_attempt, b, b->eb);
    if (rc == ERR_OK)
        rc = check_whole(b);
    rt_shield_begin(&shield); /* also where it was interrupted */
    if (rc == ERR_OK || rc == ERR_NO_UPLOAD || rc == ERR_BAD_DIGEST)
        between_forget(b, false);
    else if (rc == ERR_PRECONDITION || b->note_path == NULL)
        between_forget(b, true); /* the source changed: nothing to go on with */
    else
        note_save(b->note_path, &b->note);
    rt_shield_end(&shield);
    free(b->note_path);
    return rc;
}

enum err
transfer_between(struct flow *f, const struct item *it, struct transfer_seen *seen,
                 struct errbuf *eb)
{
    struct between *b = xcalloc(1, sizeof *b); /* too large for a fiber's stack */
    enum err rc;

    b->f = f;
    b->it = it;
    b->eb = eb;
    b->a = arena_new(KIB(64), MIB(64));
    rc = flow_try(f, between_head_attempt, b, eb);
    if (rc == ERR_OK) {
        if (!it->known)
            f->progress.total_bytes += b->info.size;
        learn_parts(b);
        rc = copy_headers_find(f, it, &b->info, b->a, &b->copy_headers, eb);
    }
    if (rc == ERR_OK)
        rc = b->source_part > 0 || b->info.size > WHOLE_MAX ? in_parts(b) : whole(b);
    if (rc == ERR_OK)
        transfer_saw(seen, &b->info);
    arena_free(&b->a);
    free(b);
    return rc;
}
