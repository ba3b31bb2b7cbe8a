/* message: the action message {"action", "name", "value"} of a body, members of JSON objects, and JSON answers. */
#include "api/ais/ais.h"
#include "api/s3/s3.h"
#include "base/mem.h"
#include "base/num.h"

json_t *
ais_member(const json_t *object, const char *name)
{
    json_t *found = json_object_get(object, name);
    const char *key;
    json_t *value;

    if (found == NULL)
        json_object_foreach((json_t *)(uintptr_t)object, key,
                            value) if (found == NULL && strcasecmp(key, name) == 0)
            found = value;
    return json_is_null(found) ? NULL : found;
}

enum err
ais_text(struct request *q, const json_t *object, const char *name, const char **out)
{
    const json_t *v = ais_member(object, name);

    *out = v != NULL ? json_string_value(v) : "";
    if (*out != NULL)
        return ERR_OK;
    *out = "";
    return ais_fault(q, 400, NULL, "\"%s\" must be text", name);
}

enum err
ais_number(struct request *q, const json_t *object, const char *name, uint64_t *out)
{
    const json_t *v = ais_member(object, name);

    *out = 0;
    if (v == NULL || (json_is_string(v) && json_string_length(v) == 0))
        return ERR_OK;
    if (json_is_integer(v) && json_integer_value(v) >= 0) {
        *out = (uint64_t)json_integer_value(v);
        return ERR_OK;
    }
    if (json_is_string(v) && num_u64(span_of(json_string_value(v)), out) == ERR_OK)
        return ERR_OK;
    return ais_fault(q, 400, NULL, "\"%s\" must be a whole number, 0 or more", name);
}

static bool
is_true_text(struct span s)
{
    static const char *const yes[] = {"1", "t", "true", "y", "yes", "on"};

    for (size_t i = 0; i < ARRAY_LEN(yes); i++)
        if (span_case_is(s, yes[i]))
            return true;
    return false;
}

enum err
ais_flag(struct request *q, const json_t *object, const char *name, bool *out)
{
    const json_t *v = ais_member(object, name);

    *out = json_is_true(v) ||
           (json_is_string(v) && is_true_text(span_of(json_string_value(v))));
    return v == NULL || json_is_boolean(v) || json_is_string(v)
               ? ERR_OK
               : ais_fault(q, 400, NULL, "\"%s\" must be true or false", name);
}

bool
ais_query_flag(const struct request *q, const char *name)
{
    return is_true_text(query_get(&q->query, name));
}

/* Names that a clean-up may quote are copied: the body's memory goes before the answer. */
static enum err
take_members(struct request *q)
{
    struct ais_request *r = q->ais;
    enum err rc = ais_text(q, r->message, "action", &r->action);

    if (rc == ERR_OK)
        rc = ais_text(q, r->message, "name", &r->name);
    r->value = ais_member(r->message, "value");
    return rc;
}

enum err
ais_read_message(struct request *q)
{
    struct ais_request *r = q->ais;
    struct span body;
    enum err rc;

    if (r->action != NULL)
        return ERR_OK;
    r->action = r->name = "";
    rc = s3_body_document(q, AIS_MESSAGE_MAX, false, &body);
    if (rc != ERR_OK || span_trim(body).len == 0)
        return rc;
    r->message = json_loadb(body.at, body.len, 0, NULL);
    if (!json_is_object(r->message))
        return ais_fault(q, 400, NULL, "the body of %zu bytes is no JSON object",
                         body.len);
    return take_members(q);
}

void
ais_put_number(struct json *j, const char *key, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    json_text(j, key, text);
}

void
ais_put_time(struct json *j, const char *key, int64_t ms)
{
    char date[NUM_DATE_TEXT];

    date_iso(ms, date);
    json_text(j, key, ms > 0 ? date : "0001-01-01T00:00:00Z");
}

void
ais_document_begin(struct ais_document *d)
{
    buf_init(&d->text, AIS_DOCUMENT_MAX);
    json_begin(&d->j, &d->text);
}

enum err
ais_document_answer(struct request *q, struct ais_document *d)
{
    enum err rc = ERR_OK;

    if (d->text.full) {
        rc = ais_fault(q, 500, NULL, "the answer is over %u bytes", AIS_DOCUMENT_MAX);
    } else {
        request_put_ids(q);
        http_header(q->http, "content-type", SPAN("application/json; charset=utf-8"));
        http_reply(q->http, 200, buf_span(&d->text));
    }
    buf_fini(&d->text);
    return rc;
}

enum err
ais_answer_text(struct request *q, int status, struct span text)
{
    request_put_ids(q);
    http_header(q->http, "content-type", SPAN("text/plain; charset=utf-8"));
    http_reply(q->http, status, text);
    return ERR_OK;
}

enum err
ais_answer_empty(struct request *q, int status)
{
    request_put_ids(q);
    http_reply_last(q->http, status);
    return ERR_OK;
}
