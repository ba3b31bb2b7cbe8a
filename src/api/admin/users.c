/* users: making, changing and removing users, their keys and grants. A secret is in the answer that makes it, and never
 * again. */
#include <openssl/crypto.h>
#include <string.h>

#include "api/admin/admin.h"
#include "base/mem.h"
#include "base/num.h"

#define BODY_MAX   KIB(64)
#define LIST_MAX   (16u << 20)
#define KEEP_MAX_S (30 * 86400)

/* ---- showing ---- */

static void
put_grants(struct json *j, const struct auth_grant *grants, uint32_t count)
{
    char text[AUTH_RIGHTS_TEXT];

    json_open_array(j, "grants");
    for (uint32_t i = 0; i < count; i++) {
        json_open_object(j, NULL);
        json_text(j, "rights", auth_rights_text(grants[i].rights, text));
        json_text(j, "bucket", grants[i].bucket);
        json_text(j, "prefix", grants[i].prefix);
        json_end(j);
    }
    json_end(j);
}

static void
admin_user_put_time(struct json *j, const char *name, int64_t ms)
{
    if (ms != 0)
        admin_put_time(j, name, ms);
}

static void
admin_user_put_limits(struct json *j, const struct auth_limits *l)
{
    json_open_object(j, "limits");
    if (l->requests > 0)
        json_u64(j, "requests", l->requests);
    if (l->bytes > 0)
        json_u64(j, "bytes", l->bytes);
    if (l->parts > 0)
        json_u64(j, "parts", l->parts);
    json_end(j);
}

static void
put_user(struct json *j, const struct auth_users *list, uint32_t index)
{
    struct auth_shown u;

    auth_users_at(list, index, &u);
    json_open_object(j, NULL);
    json_text(j, "name", u.name);
    json_bool(j, "from_file", u.from_file);
    admin_user_put_time(j, "created", u.created_ms);
    json_open_array(j, "keys");
    for (uint32_t k = 0; k < u.key_count; k++) {
        const struct auth_key *key = auth_users_key(list, index, k);

        json_open_object(j, NULL);
        json_text(j, "access_key", key->id);
        json_bool(j, "temporary", key->token != NULL);
        admin_user_put_time(j, "expires", key->expires_ms);
        json_end(j);
    }
    json_end(j);
    put_grants(j, u.grants, u.grant_count);
    admin_user_put_limits(j, &u.limits);
    json_end(j);
}

enum err
admin_user_list(struct request *q)
{
    /* No switch until the text is made. */
    const struct auth_users *list = auth_users_now(q->api->options.auth);
    struct admin_page page;

    admin_page_begin(&page, LIST_MAX);
    json_open_object(&page.j, NULL);
    json_open_array(&page.j, "users");
    for (uint32_t i = 0; i < auth_users_count(list); i++)
        put_user(&page.j, list, i);
    json_end(&page.j);
    json_end(&page.j);
    return admin_page_answer(q, &page, 200);
}

/* ---- changing ---- */

static enum err
admin_user_refuse(struct request *q, enum err rc, const struct errbuf *eb)
{
    enum s3_code code = rc == ERR_EXISTS        ? S3_OperationAborted
                        : rc == ERR_NOT_FOUND   ? S3_NoSuchKey
                        : rc == ERR_BAD_REQUEST ? S3_InvalidArgument
                        : rc == ERR_TOO_LARGE   ? S3_InvalidArgument
                        : rc == ERR_DENIED      ? S3_AccessDenied
                                                : S3_OK;

    return code != S3_OK ? fault_set(&q->fault, code, "%s", eb->text)
                         : fault_from(q, rc, eb);
}

static enum err
answer_key(struct request *q, struct span name, struct auth_new_key *made)
{
    struct buf text;
    struct json j;

    buf_init(&text, KIB(4));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_span(&j, "name", name);
    json_text(&j, "access_key", made->id);
    json_text(&j, "secret_key", made->secret);
    if (made->token[0] != '\0')
        json_text(&j, "session_token", made->token);
    admin_user_put_time(&j, "expires", made->expires_ms);
    json_end(&j);
    auth_new_key_wipe(made);
    admin_answer_json(q, 200, buf_span(&text));
    OPENSSL_cleanse(text.at, text.len);
    buf_fini(&text);
    return ERR_OK;
}

static enum err
answer_done(struct request *q)
{
    request_put_ids(q);
    http_reply(q->http, 204, (struct span){"", 0});
    return ERR_OK;
}

static enum err
admin_user_text_of(struct request *q, const json_t *doc, const char *name,
                   struct span *out)
{
    const json_t *v = json_object_get(doc, name);

    *out = (struct span){"", 0};
    if (v == NULL || json_is_null(v))
        return ERR_OK;
    if (!json_is_string(v))
        return fault_set(&q->fault, S3_InvalidArgument, "\"%s\" must be text", name);
    *out = (struct span){json_string_value(v), json_string_length(v)};
    return ERR_OK;
}

/* Seconds, 0 when absent. */
static enum err
admin_user_seconds_of(struct request *q, const json_t *doc, const char *name,
                      int64_t most, int64_t *out)
{
    const json_t *v = json_object_get(doc, name);

    *out = 0;
    if (v == NULL)
        return ERR_OK;
    if (!json_is_integer(v) || json_integer_value(v) < 0 || json_integer_value(v) > most)
        return fault_set(&q->fault, S3_InvalidArgument,
                         "\"%s\" is a number of seconds, 0 to %lld", name,
                         (long long)most);
    *out = json_integer_value(v);
    return ERR_OK;
}

struct wanted {
    auth_rights rights;
    struct span bucket, prefix;
};

static enum err
read_grant(struct request *q, const json_t *doc, struct wanted *out)
{
    struct span rights;
    struct errbuf eb = {{0}};
    enum err rc = admin_user_text_of(q, doc, "rights", &rights);

    if (rc == ERR_OK)
        rc = admin_user_text_of(q, doc, "bucket", &out->bucket);
    if (rc == ERR_OK)
        rc = admin_user_text_of(q, doc, "prefix", &out->prefix);
    if (rc != ERR_OK)
        return rc;
    rc = auth_rights_parse(rights, &out->rights, &eb);
    if (rc == ERR_OK)
        rc = auth_grant_check(out->rights, out->bucket, out->prefix, &eb);
    return rc == ERR_OK ? ERR_OK : admin_user_refuse(q, rc, &eb);
}

enum err
admin_user_add(struct request *q)
{
    struct auth_new_key made = {.id = ""};
    struct errbuf eb = {{0}};
    struct span name;
    json_t *doc = NULL;
    enum err rc = admin_read_object(q, BODY_MAX, &doc);

    if (rc == ERR_OK)
        rc = admin_user_text_of(q, doc, "name", &name);
    if (rc == ERR_OK) {
        rc = auth_user_add(q->api->options.auth, name, &made, &eb);
        AUDIT_CHANGE(q, "user.add", rc, L_SPAN("target", name),
                     L_TEXT("made_key", made.id));
        rc = rc == ERR_OK ? answer_key(q, name, &made) : admin_user_refuse(q, rc, &eb);
    }
    json_decref(doc);
    return rc;
}

enum err
admin_user_remove(struct request *q)
{
    struct span name = span_from(q->http->head->path, strlen("/_/users/"));
    struct errbuf eb = {{0}};
    enum err rc = auth_user_remove(q->api->options.auth, name, &eb);

    AUDIT_CHANGE(q, "user.remove", rc, L_SPAN("target", name));
    return rc == ERR_OK ? answer_done(q) : admin_user_refuse(q, rc, &eb);
}

static enum err
admin_user_make_key(struct request *q, struct span name, const json_t *doc)
{
    struct auth *a = q->api->options.auth;
    struct auth_new_key made = {.id = ""};
    struct errbuf eb = {{0}};
    int64_t expires = 0, keep = 0;
    bool temporary = json_object_get(doc, "expires_s") != NULL;
    enum err rc = admin_user_seconds_of(q, doc, "expires_s",
                                        (int64_t)(AUTH_TEMPORARY_MS / 1000), &expires);

    if (rc == ERR_OK)
        rc = admin_user_seconds_of(q, doc, "keep_s", KEEP_MAX_S, &keep);
    if (rc != ERR_OK)
        return rc;
    rc = temporary ? auth_user_temporary(a, name, (uint64_t)expires * 1000, &made, &eb)
                   : auth_user_rotate(a, name, (uint64_t)keep * 1000, &made, &eb);
    AUDIT_CHANGE(q, temporary ? "user.temporary_key" : "user.rotate", rc,
                 L_SPAN("target", name), L_TEXT("made_key", made.id));
    return rc == ERR_OK ? answer_key(q, name, &made) : admin_user_refuse(q, rc, &eb);
}

static enum err
admin_user_change_grant(struct request *q, struct span name, const json_t *doc, bool give)
{
    struct auth *a = q->api->options.auth;
    struct errbuf eb = {{0}};
    struct wanted w = {0};
    char text[AUTH_RIGHTS_TEXT];
    enum err rc = read_grant(q, doc, &w);

    if (rc != ERR_OK)
        return rc;
    rc = give ? auth_user_grant(a, name, w.rights, w.bucket, w.prefix, &eb)
              : auth_user_revoke(a, name, w.rights, w.bucket, w.prefix, &eb);
    AUDIT_CHANGE(q, give ? "user.grant" : "user.revoke", rc, L_SPAN("target", name),
                 L_TEXT("rights", auth_rights_text(w.rights, text)),
                 L_SPAN("bucket", w.bucket), L_SPAN("prefix", w.prefix));
    return rc == ERR_OK ? answer_done(q) : admin_user_refuse(q, rc, &eb);
}

/* What is not named stays; null or 0: no limit. */
static enum err
read_limit(struct request *q, const json_t *doc, const char *name, uint64_t most,
           uint64_t *value)
{
    const json_t *v = json_object_get(doc, name);

    if (v == NULL)
        return ERR_OK;
    if (!json_is_null(v) && (!json_is_integer(v) || json_integer_value(v) < 0 ||
                             (uint64_t)json_integer_value(v) > most))
        return fault_set(&q->fault, S3_InvalidArgument,
                         "\"%s\" is a number up to %llu; null or 0: no limit", name,
                         (unsigned long long)most);
    *value = json_is_null(v) ? 0 : (uint64_t)json_integer_value(v);
    return ERR_OK;
}

static enum err
change_limits(struct request *q, struct span name, const json_t *doc)
{
    struct auth *a = q->api->options.auth;
    struct auth_limits l = {0};
    struct errbuf eb = {{0}};
    uint64_t parts;
    enum err rc;

    (void)auth_user_limits(a, name, &l); /* no such user: reported below */
    parts = l.parts;
    rc = read_limit(q, doc, "requests", AUTH_REQUESTS_MAX, &l.requests);
    if (rc == ERR_OK)
        rc = read_limit(q, doc, "bytes", AUTH_BYTES_MAX, &l.bytes);
    if (rc == ERR_OK)
        rc = read_limit(q, doc, "parts", AUTH_PARTS_MAX, &parts);
    if (rc != ERR_OK)
        return rc;
    l.parts = (uint32_t)parts;
    rc = auth_user_limit(a, name, &l, &eb);
    AUDIT_CHANGE(q, "user.limits", rc, L_SPAN("target", name),
                 L_U64("requests", l.requests), L_U64("bytes", l.bytes),
                 L_U64("parts", l.parts));
    return rc == ERR_OK ? answer_done(q) : admin_user_refuse(q, rc, &eb);
}

/* /_/users/NAME/keys, /_/users/NAME/grants, /_/users/NAME/revoke, /_/users/NAME/limits */
enum err
admin_user_change(struct request *q)
{
    struct span rest = span_from(q->http->head->path, strlen("/_/users/"));
    const char *slash = span_find(rest, '/');
    struct span name, what;
    json_t *doc = NULL;
    enum err rc;

    if (slash == NULL)
        return fault_set(&q->fault, S3_NoSuchKey, "There is no such page under /_/");
    name = (struct span){rest.at, (size_t)(slash - rest.at)};
    what = span_from(rest, name.len + 1);
    if (!span_is(what, "keys") && !span_is(what, "grants") && !span_is(what, "revoke") &&
        !span_is(what, "limits"))
        return fault_set(&q->fault, S3_NoSuchKey, "There is no such page under /_/");
    rc = admin_read_object(q, BODY_MAX, &doc);
    if (rc == ERR_OK)
        rc = span_is(what, "keys") ? admin_user_make_key(q, name, doc)
             : span_is(what, "limits")
                 ? change_limits(q, name, doc)
                 : admin_user_change_grant(q, name, doc, span_is(what, "grants"));
    json_decref(doc);
    return rc;
}
