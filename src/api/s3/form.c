/* form: upload from a browser's form. Fields come first, then the file; what stands behind it means nothing. The fields
 * identify the user (form_auth.c), so the gate lets the route through and this file checks the rights. */
#include <string.h>

#include "api/s3/s3.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/uri.h"
#include "wire/form.h"
#include "wire/post_policy.h"
#include "wire/s3tags.h"

#define FIELDS_MAX      100
#define FIELD_BYTES_MAX KIB(64) /* of all fields together; AWS takes 20 KB */
#define READ_BYTES      KIB(64)

struct upload {
    struct request *q;
    struct form form;
    struct iobuf *buf; /* owned */
    struct span in;    /* received, not yet used */
    bool ended;
    struct field fields[FIELDS_MAX]; /* names in lower case, each once; never `bucket` */
    size_t count;
    size_t field_bytes;
    struct span filename, file_type;
    struct span key;
    struct span tags; /* of the field `tagging`, as they are kept; NULL `at`: none */
    bool names_bucket, with_policy;
    struct post_policy policy;
    struct checksum_value sum; /* what a field promises; CHECKSUM_NONE: nothing */
    struct object_put *put;    /* owned */
    uint64_t got;
};

static struct span
form_field(const struct upload *u, const char *name)
{
    return fields_get((struct fields){u->fields, u->count}, name);
}

static void
form_set_field(struct upload *u, const char *name, struct span value)
{
    for (size_t i = 0; i < u->count; i++)
        if (span_is(u->fields[i].name, name))
            u->fields[i].value = value;
}

/* ---- reading ---- */

/* The next event; bytes are read as they are needed. May switch. */
static enum err
next(struct upload *u, enum form_event *event, struct span *piece)
{
    struct request *q = u->q;
    struct errbuf eb = {{0}};
    size_t n;
    enum err rc;

    for (;;) {
        *event = form_next(&u->form, &u->in, u->ended, piece);
        if (*event == FORM_BAD)
            return fault_set(&q->fault,
                             u->ended ? S3_IncompleteBody : S3_MalformedPOSTRequest,
                             "The body of your POST request is not well-formed "
                             "multipart/form-data: %s",
                             u->form.why);
        if (*event != FORM_MORE)
            return ERR_OK;
        if (u->in.len > 0)
            memmove(u->buf->at, u->in.at, u->in.len);
        u->in.at = u->buf->at;
        rc = http_body_read(q->http, u->buf->at + u->in.len, READ_BYTES - u->in.len, &n,
                            &eb);
        if (rc != ERR_OK)
            return fault_from(q, rc, &eb);
        u->in.len += n;
        u->ended = n == 0;
    }
}

static struct span
lower(struct arena *a, struct span s)
{
    char *p = arena_strdup(a, s);

    for (size_t i = 0; i < s.len; i++)
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] = (char)(p[i] + 32);
    return (struct span){p, s.len};
}

/* Keeps a field whose value was read. Readers differ in which of two equal names they use, so a name that means
 * something is accepted once only. `bucket` may only repeat the URL. */
static enum err
form_add_field(struct upload *u, const struct field *f)
{
    struct request *q = u->q;

    u->field_bytes += f->name.len + f->value.len;
    if (u->field_bytes >= FIELD_BYTES_MAX)
        return fault_set(&q->fault, S3_MaxPostPreDataLengthExceededError, NULL);
    if (form_field(u, f->name.at).at != NULL && !post_policy_is_ignored(f->name))
        return fault_argument(&q->fault, f->name.at, f->value,
                              "POST takes the field '%.*s' once, the form has it twice",
                              (int)MIN(f->name.len, 100), f->name.at);
    if (span_is(f->name, "bucket")) {
        if (u->names_bucket)
            return fault_argument(
                &q->fault, "bucket", f->value,
                "POST takes the field 'bucket' once, the form has it twice");
        u->names_bucket = true;
        return span_eq(f->value, q->name.bucket)
                   ? ERR_OK
                   : fault_set(&q->fault, S3_AccessDenied,
                               "The field 'bucket' names another bucket than the URL");
    }
    u->fields[u->count++] = *f;
    return ERR_OK;
}

/* The whole value of a field. */
static enum err
parse_field(struct upload *u)
{
    struct request *q = u->q;
    struct field f;
    enum form_event event = FORM_DATA;
    struct span piece;
    struct buf value;
    enum err rc = ERR_OK;

    if (u->count == FIELDS_MAX)
        return fault_set(&q->fault, S3_InvalidRequest,
                         "A form has at most %u fields before its file", FIELDS_MAX);
    f.name = lower(request_work(q), u->form.name);
    buf_init(&value, FIELD_BYTES_MAX - u->field_bytes);
    while (rc == ERR_OK && event != FORM_PART_END) {
        rc = next(u, &event, &piece);
        if (rc == ERR_OK && event == FORM_DATA)
            buf_put_span(&value, piece);
        if (rc == ERR_OK && event == FORM_END)
            rc = fault_set(&q->fault, S3_MalformedPOSTRequest, NULL);
        if (value.full)
            rc = fault_set(&q->fault, S3_MaxPostPreDataLengthExceededError, NULL);
    }
    if (rc == ERR_OK) {
        f.value = arena_span(request_work(q), buf_span(&value));
        rc = form_add_field(u, &f);
    }
    buf_fini(&value);
    return rc;
}

/* All fields, up to the head of the file. */
static enum err
parse_fields(struct upload *u)
{
    struct request *q = u->q;
    enum form_event event;
    struct span piece;
    enum err rc;

    for (;;) {
        rc = next(u, &event, &piece);
        if (rc != ERR_OK)
            return rc;
        if (event == FORM_END)
            return fault_argument(&q->fault, "file", SPAN(""),
                                  "POST requires exactly one file upload per request.");
        if (event != FORM_PART)
            continue; /* the end of a field that was taken */
        if (span_case_is(u->form.name, "file")) {
            u->filename = arena_span(request_work(q), u->form.filename);
            u->file_type = arena_span(request_work(q), u->form.content_type);
            return ERR_OK;
        }
        rc = parse_field(u);
        if (rc != ERR_OK)
            return rc;
    }
}

/* ---- checks ---- */

/* Browsers of old sent the whole path: what is behind the last slash of either kind is the name. */
static struct span
base_name(struct span path)
{
    for (size_t i = path.len; i > 0; i--)
        if (path.at[i - 1] == '/' || path.at[i - 1] == '\\')
            return span_from(path, i);
    return path;
}

/* The field `key` with the name of the file in it. The policy's conditions apply to the result, as with AWS. */
static enum err
form_parse_key(struct upload *u)
{
    static const char mark[] = "${filename}";
    struct request *q = u->q;
    struct span given = form_field(u, "key"), name = base_name(u->filename);
    const char *at;

    if (given.len == 0)
        return fault_argument(&q->fault, "key", given,
                              "Bucket POST must contain a field named 'key'. If it is "
                              "specified, please check the order of the fields.");
    at = memmem(given.at, given.len, mark, sizeof mark - 1);
    u->key = given;
    if (at != NULL) {
        size_t before = (size_t)(at - given.at);
        struct span behind = span_from(given, before + sizeof mark - 1);
        char *key = arena_alloc(request_work(q), before + name.len + behind.len + 1);

        memcpy(key, given.at, before);
        memcpy(key + before, name.len > 0 ? name.at : "", name.len);
        memcpy(key + before + name.len, behind.len > 0 ? behind.at : "", behind.len);
        u->key = (struct span){key, before + name.len + behind.len};
        form_set_field(u, "key", u->key);
    }
    if (u->key.len == 0)
        return fault_argument(&q->fault, "key", given,
                              "User key must have a length greater than 0.");
    return s3_key_check(u->key, q->arena, &q->fault);
}

static enum err
check_policy(struct upload *u)
{
    struct request *q = u->q;
    struct span text = form_field(u, "policy");
    char *json;
    int64_t now_s = 0;
    int len;
    enum err rc;

    if (!s3_form_is_signed((struct fields){u->fields, u->count}))
        return ERR_OK; /* the rights of the caller without a key */
    if (text.len > POST_POLICY_MAX)
        return fault_set(&q->fault, S3_InvalidPolicyDocument,
                         "The policy has %zu bytes, at most %u are taken", text.len,
                         POST_POLICY_MAX);
    rc = s3_form_identify(q, (struct fields){u->fields, u->count}, &now_s);
    if (rc != ERR_OK)
        return rc;
    json = arena_alloc(request_work(q), text.len);
    len = base64_decode(text.at, text.len, json, text.len);
    if (len < 0)
        return fault_set(&q->fault, S3_InvalidPolicyDocument,
                         "Invalid Policy: it is not base64");
    u->with_policy = true;
    return post_policy_check(
        (struct span){json, (size_t)len},
        &(struct post_policy_form){{u->fields, u->count}, q->name.bucket, u->file_type},
        now_s, &u->policy, &q->fault);
}

/* Fields that would change what is stored or who may read it, not built: refused by name. */
static enum err
refuse_unbuilt(struct upload *u)
{
    struct request *q = u->q;

    for (size_t i = 0; i < u->count; i++) {
        struct span name = u->fields[i].name;

        if (span_starts(name, SPAN("x-amz-server-side-encryption")) ||
            span_starts(name, SPAN("x-amz-object-lock")) ||
            span_is(name, "x-amz-website-redirect-location"))
            return fault_set(&q->fault, S3_NotImplemented,
                             "The form field %.*s is not implemented",
                             (int)MIN(name.len, 100), name.at);
    }
    return ERR_OK;
}

/* Tags come as a document in the field `tagging`. */
static enum err
form_parse_tags(struct upload *u)
{
    struct request *q = u->q;
    struct span tags = form_field(u, "tagging");
    enum err rc;

    if (tags.len == 0)
        return ERR_OK;
    rc = s3tags_parse_document(tags, S3TAGS_OF_OBJECT, request_work(q), &u->tags,
                               &q->fault);
    q->request_tags = u->tags;
    return rc;
}

static enum err
form_check(struct upload *u)
{
    struct request *q = u->q;
    struct fields fields = {u->fields, u->count};
    enum err rc = form_parse_key(u);

    if (rc == ERR_OK)
        rc = check_policy(u);
    if (rc == ERR_OK)
        rc = s3_find_bucket(q);
    if (rc == ERR_OK)
        rc = form_parse_tags(u);
    if (rc == ERR_OK)
        rc = caller_require(q, AUTH_WRITE, q->name.bucket, u->key);
    if (rc != ERR_OK) {
        AUDIT(q, "auth.refused", s3_code_name(q->fault.code),
              L_SPAN("bucket", q->name.bucket));
        return rc;
    }
    rc = refuse_unbuilt(u);
    for (size_t i = 0; i < fields.count && rc == ERR_OK; i++) {
        enum checksum_kind kind = checksum_of_header(fields.at[i].name);

        if (kind != CHECKSUM_NONE)
            rc = checksum_parse(kind, fields.at[i].value, &u->sum, &q->fault);
    }
    return rc;
}

/* ---- storing ---- */

static enum err
form_meta_of(struct upload *u, struct object_meta *out)
{
    struct request *q = u->q;
    struct field *as_headers =
        arena_alloc(request_work(q), (u->count + 1) * sizeof(struct field));
    size_t n = 0;
    bool typed = false;
    enum err rc;

    for (size_t i = 0; i < u->count; i++) {
        as_headers[n++] = u->fields[i];
        typed = typed || span_is(u->fields[i].name, "content-type");
    }
    if (!typed && u->file_type.len > 0 &&
        (!u->with_policy || u->policy.names_content_type))
        as_headers[n++] = (struct field){SPAN("content-type"), u->file_type};
    rc = s3_meta_from_fields(q, (struct fields){as_headers, n}, out);
    out->tags = u->tags;
    return rc == ERR_OK ? s3_acl_of_new_object(q, form_field(u, "acl"), out) : rc;
}

static enum err
form_put_file(struct upload *u)
{
    struct request *q = u->q;
    uint64_t most = u->policy.has_range ? MIN(u->policy.most, S3_PUT_MAX) : S3_PUT_MAX;
    enum form_event event = FORM_DATA;
    struct errbuf eb = {{0}};
    struct span piece;

    while (event != FORM_PART_END) {
        enum err rc = next(u, &event, &piece);

        if (rc != ERR_OK)
            return rc;
        if (event != FORM_DATA)
            continue;
        u->got += piece.len;
        if (u->got > most)
            return fault_set(&q->fault, S3_EntityTooLarge, NULL);
        rc = object_put_write(u->put, piece.at, piece.len, &eb);
        if (rc != ERR_OK)
            return fault_from(q, rc, &eb);
    }
    if (u->policy.has_range && u->got < u->policy.least)
        return fault_set(&q->fault, S3_EntityTooSmall, NULL);
    return ERR_OK;
}

static enum err
form_check_sum(struct upload *u)
{
    struct request *q = u->q;
    struct errbuf eb = {{0}};
    struct object_sums sums;
    enum err rc = object_put_sums(u->put, &sums, &eb);

    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    if (u->sum.kind != CHECKSUM_NONE &&
        (sums.checksum_len != checksum_len(u->sum.kind) ||
         memcmp(sums.checksum, u->sum.bytes, sums.checksum_len) != 0))
        return fault_set(&q->fault, S3_BadDigest, NULL);
    return ERR_OK;
}

static enum err
form_store(struct upload *u, struct object_info *info)
{
    struct request *q = u->q;
    struct object_put_options o = {.size = OBJECT_SIZE_UNKNOWN,
                                   .checksum_algorithm =
                                       s3_checksum_kept(q->bucket, u->sum.kind)};
    struct object_meta meta;
    struct errbuf eb = {{0}};
    enum err rc = form_meta_of(u, &meta);

    if (rc != ERR_OK)
        return rc;
    rc = object_put_begin(q->api->options.object, q->bucket, u->key, &o, &u->put, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    rc = form_put_file(u);
    if (rc == ERR_OK)
        rc = form_check_sum(u);
    if (rc == ERR_OK) {
        rc = object_put_commit(&u->put, &meta, q->arena, info, &eb);
        if (rc != ERR_OK)
            rc = fault_from(q, rc, &eb);
    }
    return rc;
}

/* ---- answering ---- */

static void
put_location(struct upload *u, struct buf *out)
{
    struct request *q = u->q;

    buf_printf(out, "http%s://%.*s/", q->http->is_tls ? "s" : "",
               SPAN_ARG(q->http->head->host));
    if (!q->name.virtual_host) {
        uri_encode(out, q->name.bucket, false);
        buf_putc(out, '/');
    }
    uri_encode(out, u->key, true);
}

/* Only to where browsers can go; anything else is as if it were not there. */
static bool
redirect_to(struct upload *u, const struct object_info *info, struct buf *out)
{
    struct span to = form_field(u, "success_action_redirect");
    const char *mark;

    if (to.len == 0)
        to = form_field(u, "redirect");
    if (!span_starts(to, SPAN("http://")) && !span_starts(to, SPAN("https://")))
        return false;
    for (size_t i = 0; i < to.len; i++)
        if ((unsigned char)to.at[i] <= ' ' || (unsigned char)to.at[i] >= 0x7f)
            return false;
    mark = span_find(to, '?');
    buf_put_span(out, to);
    buf_puts(out, mark != NULL ? "&bucket=" : "?bucket=");
    uri_encode(out, u->q->name.bucket, false);
    buf_puts(out, "&key=");
    uri_encode(out, u->key, false);
    buf_puts(out, "&etag=%22");
    uri_encode(out, span_of(info->etag), false);
    buf_puts(out, "%22");
    return !out->full;
}

static enum err
form_answer(struct upload *u, const struct object_info *info)
{
    struct request *q = u->q;
    struct span wanted = form_field(u, "success_action_status");
    struct buf location, body;
    struct xml x;

    buf_init(&location, KIB(12));
    buf_init(&body, KIB(32));
    request_put_ids(q);
    s3_put_etag(q, info->etag);
    s3_put_new_version(q, info);
    s3_put_checksum_header(q, &info->meta);
    if (redirect_to(u, info, &location)) {
        http_header(q->http, "location", buf_span(&location));
        http_reply(q->http, 303, (struct span){"", 0});
    } else {
        buf_clear(&location);
        location.full = false;
        put_location(u, &location);
        http_header(q->http, "location", buf_span(&location));
        if (span_is(wanted, "201")) {
            xml_begin(&x, &body);
            xml_open(&x, "PostResponse");
            xml_span(&x, "Location", buf_span(&location));
            xml_span(&x, "Bucket", q->name.bucket);
            xml_span(&x, "Key", u->key);
            xml_etag(&x, "ETag", span_of(info->etag));
            xml_close(&x);
            http_header(q->http, "content-type", SPAN("application/xml"));
        }
        http_reply(q->http,
                   span_is(wanted, "201")   ? 201
                   : span_is(wanted, "200") ? 200
                                            : 204,
                   buf_span(&body));
    }
    buf_fini(&location);
    buf_fini(&body);
    return ERR_OK;
}

enum err
s3_post_form(struct request *q)
{
    struct upload *u = arena_alloc(request_work(q), sizeof *u);
    struct object_info *info = arena_alloc(q->arena, sizeof *info);
    struct span boundary;
    enum err rc;

    if (q->caller.signed_request)
        return fault_argument(&q->fault, "Authorization", SPAN(""),
                              "Only one auth mechanism allowed; a form carries its own");
    if (!form_boundary(http_get(q->http->head, HTTP_CONTENT_TYPE), &boundary))
        return fault_set(&q->fault, S3_PreconditionFailed,
                         "Bucket POST must be of the enclosure-type multipart/form-data");
    rc = iobuf_get(READ_BYTES, &u->buf);
    if (rc != ERR_OK)
        return s3_fault(q, S3_SlowDown);
    u->q = q;
    u->in = (struct span){u->buf->at, 0};
    form_begin(&u->form, boundary);
    rc = parse_fields(u);
    if (rc == ERR_OK)
        rc = form_check(u);
    if (rc == ERR_OK) {
        http_body_trust(q->http);
        rc = form_store(u, info);
    }
    if (rc == ERR_OK)
        rc = form_answer(u, info);
    object_put_abort(&u->put);
    iobuf_drop(&u->buf);
    return rc;
}
