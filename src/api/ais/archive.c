/* archive: members of shards: one as the body of a GET (archpath), or all that match as a tar (archregx, archmode). */
#include <string.h>

#include "api/ais/ops.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"
#include "rt/fiber.h"
#include "rt/time.h"
#include "shard/build.h"
#include "shard/member.h"
#include "shard/write.h"

static enum err
archive_fault(struct request *q, enum err rc, struct errbuf *eb)
{
    if (rc == ERR_NOT_FOUND && eb->text[0] != '\0' && strstr(eb->text, "member") != NULL)
        return ais_fault(q, 404, "ErrNotFound", "object \"%s/%.*s\": %s",
                         q->ais->bucket.text, (int)MIN(q->name.key.len, 200u),
                         q->name.key.at, strstr(eb->text, "member"));
    if (rc == ERR_BAD_REQUEST || rc == ERR_INCOMPLETE || rc == ERR_TOO_LARGE)
        return ais_fault(q, 400, NULL, "%s", eb->text);
    return ais_fault_from(q, rc, eb);
}

static enum err
archive_replaced(struct errbuf *eb)
{
    return err_set(eb, ERR_BUSY,
                   "the archive was replaced again and again while it was read");
}

/* The archive that the request names, and its format: by archmime, else by the object's name. */
static enum err
archive_asked(struct request *q, struct shard_ask *ask)
{
    struct span mime = query_get(&q->query, "archmime");

    if (query_get(&q->query, "archpath").len > 0 &&
        query_get(&q->query, "archregx").len > 0)
        return ais_fault(q, 400, NULL, "archpath and archregx exclude each other");
    if (http_get(q->http->head, HTTP_RANGE).at != NULL)
        return ais_fault(q, 400, "ErrUnsupp",
                         "a range of a member of an archive is not supported");
    *ask = (struct shard_ask){
        .bucket = q->bucket, .key = q->name.key, .format = shard_format_of_mime(mime)};
    if (mime.len > 0 && ask->format == SHARD_NONE)
        return ais_fault(q, 400, NULL,
                         "archmime \"%.*s\" is not known: .tar, .tgz, .tar.gz, .tar.lz4, "
                         ".zip",
                         (int)MIN(mime.len, 60u), mime.at);
    return ERR_OK;
}

static void
archive_put_type(struct request *q, const char *type)
{
    request_put_ids(q);
    http_header(q->http, "content-type", span_of(type));
}

/* ---- one member ---- */

static enum err
member_send(struct request *q, struct shard_reader *r, struct span piece)
{
    struct errbuf eb = {{0}};
    enum err rc;

    archive_put_type(q, "application/octet-stream");
    rc = http_reply_begin(q->http, 200, (int64_t)shard_member_size(r));
    while (rc == ERR_OK && piece.len > 0) {
        struct span more[OBJECT_READ_MORE];
        struct iovec iov[1 + OBJECT_READ_MORE] = {
            {(void *)(uintptr_t)piece.at, piece.len}};
        unsigned n = shard_member_more(r, more, OBJECT_READ_MORE);

        for (unsigned i = 0; i < n; i++)
            iov[1 + i] = (struct iovec){(void *)(uintptr_t)more[i].at, more[i].len};
        if (http_reply_writev(q->http, iov, 1 + (int)n) != ERR_OK)
            return ERR_OK; /* the client is gone */
        rc = shard_member_next(r, &piece, &eb);
    }
    if (rc != ERR_OK)
        return archive_fault(q, rc, &eb);
    http_reply_end(q->http);
    return ERR_OK;
}

enum err
ais_get_member(struct request *q)
{
    struct span name = query_get(&q->query, "archpath"), piece = {"", 0};
    struct shard_reader *r = NULL;
    struct errbuf eb = {{0}};
    struct shard_ask ask;
    bool found;
    enum err rc = archive_asked(q, &ask);

    if (rc != ERR_OK)
        return rc;
    do { /* replaced between the index and the read */
        shard_member_close(&r);
        rc = shard_member_open(q->api->shards, &ask, name, &r, &eb);
        found = rc == ERR_OK;
        if (rc == ERR_OK)
            rc = shard_member_range(r, 0, shard_member_size(r), &eb);
        if (rc == ERR_OK)
            rc = shard_member_next(r, &piece, &eb);
    } while (rc == ERR_NOT_FOUND && found && rt_retry());
    if (rc == ERR_NOT_FOUND && found)
        rc = archive_replaced(&eb);
    rc = rc == ERR_OK ? member_send(q, r, piece) : archive_fault(q, rc, &eb);
    shard_member_close(&r);
    return rc;
}

/* ---- all that match ---- */

static enum err
archive_mode(struct request *q, enum shard_match_kind *out)
{
    static const struct {
        const char *name;
        enum shard_match_kind kind;
    } modes[] = {
        {"", SHARD_MATCH_PREFIX},       {"*", SHARD_MATCH_PREFIX},
        {"prefix", SHARD_MATCH_PREFIX}, {"suffix", SHARD_MATCH_SUFFIX},
        {"substr", SHARD_MATCH_PART},   {"wdskey", SHARD_MATCH_SAMPLE},
        {"regexp", SHARD_MATCH_REGEXP},
    };
    struct span mode = query_get(&q->query, "archmode");

    for (size_t i = 0; i < ARRAY_LEN(modes); i++)
        if (span_is(mode, modes[i].name)) {
            *out = modes[i].kind;
            return ERR_OK;
        }
    return ais_fault(q, 400, NULL,
                     "archmode \"%.*s\" is not known: regexp, prefix, suffix, substr, "
                     "wdskey",
                     (int)MIN(mode.len, 60u), mode.at);
}

static enum err
members_sink(void *arg, struct span bytes, struct errbuf *eb)
{
    (void)eb;
    return http_reply_write(((struct request *)arg)->http, bytes.at, bytes.len);
}

/* Where the scan is: a member, and the first piece of its bytes. */
struct matching {
    struct shard_scan *scan; /* owned */
    struct shard_member m;
    struct span piece;
    bool end; /* there is no member */
};

static enum err
matching_next(struct matching *at, struct errbuf *eb)
{
    enum err rc = shard_scan_next(at->scan, &at->m, &at->end, eb);

    if (rc == ERR_OK && !at->end)
        rc = shard_scan_data(at->scan, &at->piece, eb);
    return rc;
}

static enum err
members_send_one(struct matching *at, struct shard_writer *w, struct errbuf *eb)
{
    enum err rc = shard_writer_member(w, at->m.name, at->m.size, at->m.mtime_s, eb);

    while (rc == ERR_OK && at->piece.len > 0) {
        rc = shard_writer_data(w, at->piece, eb);
        if (rc == ERR_OK)
            rc = shard_scan_data(at->scan, &at->piece, eb);
    }
    return rc;
}

/* From the first member that matches on. */
static enum err
members_send(struct request *q, struct matching *at)
{
    struct shard_writer *w = NULL;
    struct errbuf eb = {{0}};
    enum err rc =
        shard_writer_new(SHARD_TAR, (struct shard_sink){members_sink, q}, &w, &eb);

    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    archive_put_type(q, shard_format_media(SHARD_TAR));
    rc = http_reply_begin(q->http, 200, HTTP_CHUNKED);
    while (rc == ERR_OK && !at->end) {
        rc = members_send_one(at, w, &eb);
        if (rc == ERR_OK)
            rc = matching_next(at, &eb);
    }
    if (rc == ERR_OK)
        rc = shard_writer_end(w, &eb);
    shard_writer_free(&w);
    if (rc != ERR_OK)
        http_reply_abort(q->http);
    else
        http_reply_end(q->http);
    return ERR_OK;
}

static enum err
matching_open(struct request *q, const struct shard_ask *ask, struct shard_match *match,
              struct matching *at, struct errbuf *eb)
{
    bool found;
    enum err rc;

    do { /* replaced between the index and the first read */
        shard_scan_close(&at->scan);
        rc = shard_scan_open(q->api->shards, ask, match, &at->scan, eb);
        found = rc == ERR_OK;
        if (found)
            rc = matching_next(at, eb);
    } while (rc == ERR_NOT_FOUND && found && rt_retry());
    return rc == ERR_NOT_FOUND && found ? archive_replaced(eb) : rc;
}

enum err
ais_get_matching(struct request *q)
{
    struct span pattern = query_get(&q->query, "archregx");
    enum shard_match_kind kind = SHARD_MATCH_PREFIX;
    struct shard_match *match = NULL;
    struct matching at = {.scan = NULL};
    struct errbuf eb = {{0}};
    struct shard_ask ask;
    enum err rc = archive_asked(q, &ask);

    if (rc == ERR_OK)
        rc = archive_mode(q, &kind);
    if (rc != ERR_OK)
        return rc;
    rc = shard_match_new(kind, pattern, &match, &eb);
    if (rc == ERR_OK)
        rc = matching_open(q, &ask, match, &at, &eb);
    if (rc == ERR_OK && at.end)
        rc = err_set(&eb, ERR_NOT_FOUND, "no member matches \"%.*s\"",
                     (int)MIN(pattern.len, 100u), pattern.at);
    rc = rc == ERR_OK ? members_send(q, &at) : archive_fault(q, rc, &eb);
    shard_scan_close(&at.scan);
    shard_match_free(&match);
    return rc;
}

/* ---- a member is added ---- */

/* Ais-Pine: 1 appends to an archive that must be there, 2 appends or creates; else the archive is new. */
static enum err
append_how(struct request *q, enum shard_build_how *how)
{
    struct span pine = fields_get(http_fields(q->http->head), "ais-pine");
    uint64_t flags = 0;

    if (pine.len > 0 && num_u64(pine, &flags) != ERR_OK)
        return ais_fault(q, 400, NULL, "Ais-Pine \"%.*s\" is no number",
                         (int)MIN(pine.len, 20u), pine.at);
    *how = (flags & 2) != 0   ? SHARD_BUILD_EITHER
           : (flags & 1) != 0 ? SHARD_BUILD_APPEND
                              : SHARD_BUILD_NEW;
    return ERR_OK;
}

static enum err
append_fault(struct request *q, enum err rc, struct errbuf *eb)
{
    if (rc != ERR_PRECONDITION)
        return archive_fault(q, rc, eb);
    return ais_fault(
        q, 409, "ErrBusy", "archive \"%s/%.*s\" was changed meanwhile; send it again",
        q->ais->bucket.text, (int)MIN(q->name.key.len, 200u), q->name.key.at);
}

static enum err
append_body(struct request *q, struct s3_body *body, struct shard_build *b)
{
    struct span name = query_get(&q->query, "archpath"), piece;
    struct errbuf eb = {{0}};
    enum err rc = shard_build_member(b, name, body->size,
                                     (int64_t)(rt_wall_ns() / 1000000000u), &eb);

    if (rc != ERR_OK)
        return archive_fault(q, rc, &eb);
    for (;;) {
        rc = s3_body_next(body, &piece);
        if (rc != ERR_OK || piece.len == 0)
            return rc;
        rc = shard_build_data(b, piece, &eb);
        if (rc != ERR_OK)
            return archive_fault(q, rc, &eb);
    }
}

static enum err
append_member(struct request *q, struct s3_body *body, const struct shard_ask *ask,
              enum shard_build_how how)
{
    struct shard_build *b = NULL;
    struct errbuf eb = {{0}};
    enum err rc = shard_build_begin(q->api->shards, ask, how, &b, &eb);

    if (rc != ERR_OK)
        return append_fault(q, rc, &eb);
    rc = append_body(q, body, b);
    if (rc == ERR_OK) {
        rc = shard_build_commit(&b, &eb);
        if (rc != ERR_OK)
            rc = append_fault(q, rc, &eb);
    }
    shard_build_abort(&b);
    return rc;
}

enum err
ais_put_member(struct request *q)
{
    enum shard_build_how how = SHARD_BUILD_NEW;
    struct shard_ask ask;
    struct s3_body body;
    enum err rc = archive_asked(q, &ask);

    if (rc == ERR_OK)
        rc = append_how(q, &how);
    if (rc == ERR_OK)
        rc = s3_body_begin(q, &body);
    if (rc != ERR_OK)
        return rc;
    if (body.size == 0 || body.size == OBJECT_SIZE_UNKNOWN)
        rc = ais_fault(q, 400, NULL,
                       "a member of an archive needs a Content-Length, and is not empty");
    else
        rc = append_member(q, &body, &ask, how);
    s3_body_end(&body);
    return rc == ERR_OK ? ais_answer_empty(q, 200) : rc;
}
