#include "wire/s3acl.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "wire/s3xml_util.h"

#define GROUPS        "http://acs.amazonaws.com/groups/global/"
#define ALL_USERS     GROUPS "AllUsers"
#define AUTHENTICATED GROUPS "AuthenticatedUsers"
#define USER_NAME_MAX 256u

static const struct {
    const char *name;
    uint8_t bits;
} permission_names[] = {
    {"FULL_CONTROL", S3ACL_FULL_CONTROL},
    {"READ", S3ACL_READ},
    {"WRITE", S3ACL_WRITE},
    {"READ_ACP", S3ACL_READ_ACP},
    {"WRITE_ACP", S3ACL_WRITE_ACP},
};

const char *
s3acl_permission_name(uint8_t permissions)
{
    for (size_t i = 0; i < ARRAY_LEN(permission_names); i++)
        if (permission_names[i].bits == permissions)
            return permission_names[i].name;
    return NULL;
}

static bool
s3acl_add(struct s3acl *acl, enum s3acl_grantee kind, uint8_t permissions,
          struct span user)
{
    assert(permissions != 0 && permissions <= S3ACL_FULL_CONTROL);
    assert((kind == S3ACL_USER) == (user.len > 0));
    if (acl->count == S3ACL_GRANTS_MAX)
        return false;
    acl->grants[acl->count++] = (struct s3acl_grant){kind, permissions, user};
    return true;
}

/* ---- canned ---- */

bool
s3acl_canned(struct span name, struct span owner, struct span bucket_owner,
             struct s3acl *out)
{
    static const struct {
        const char *name;
        enum s3acl_grantee kind;
        uint8_t first, second; /* permissions, each a grant */
    } canned[] = {
        {"private", S3ACL_USER, 0, 0},
        {"public-read", S3ACL_ALL_USERS, S3ACL_READ, 0},
        {"public-read-write", S3ACL_ALL_USERS, S3ACL_READ, S3ACL_WRITE},
        {"authenticated-read", S3ACL_AUTHENTICATED_USERS, S3ACL_READ, 0},
        {"bucket-owner-read", S3ACL_USER, S3ACL_READ, 0},
        {"bucket-owner-full-control", S3ACL_USER, S3ACL_FULL_CONTROL, 0},
    };
    const struct span none = {NULL, 0};

    out->owner = owner;
    out->count = 0;
    for (size_t i = 0; i < ARRAY_LEN(canned); i++) {
        bool of_owner =
            canned[i].kind == S3ACL_USER; /* the grant is the bucket owner's */

        if (!span_is(name, canned[i].name))
            continue;
        if (canned[i].first != 0 && !of_owner)
            (void)s3acl_add(out, canned[i].kind, canned[i].first, none);
        if (canned[i].second != 0)
            (void)s3acl_add(out, canned[i].kind, canned[i].second, none);
        if (owner.len > 0)
            (void)s3acl_add(out, S3ACL_USER, S3ACL_FULL_CONTROL, owner);
        if (canned[i].first != 0 && of_owner && bucket_owner.len > 0 &&
            !span_eq(owner, bucket_owner))
            (void)s3acl_add(out, S3ACL_USER, canned[i].first, bucket_owner);
        return true;
    }
    return false;
}

/* ---- headers ---- */

static enum err
no_group(struct span uri, struct fault *f)
{
    return fault_argument(f, "URI", uri, "Invalid group uri");
}

static enum err
too_many_grants(struct fault *f)
{
    return fault_set(f, S3_InvalidRequest, "An access control list has at most %u grants",
                     S3ACL_GRANTS_MAX);
}

static enum err
add_group(struct s3acl *out, uint8_t permissions, struct span uri, struct fault *f)
{
    enum s3acl_grantee kind = S3ACL_ALL_USERS;

    if (span_is(uri, AUTHENTICATED))
        kind = S3ACL_AUTHENTICATED_USERS;
    else if (!span_is(uri, ALL_USERS))
        return no_group(uri, f);
    return s3acl_add(out, kind, permissions, (struct span){NULL, 0}) ? ERR_OK
                                                                     : too_many_grants(f);
}

/* A name that fits on a line of the kept text. */
static bool
is_user_name(struct span name)
{
    if (name.len == 0 || name.len > USER_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++)
        if ((unsigned char)name.at[i] < ' ')
            return false;
    return true;
}

static enum err
acl_add_user(struct s3acl *out, uint8_t permissions, struct span name, struct arena *a,
             struct fault *f)
{
    if (!is_user_name(name))
        return fault_argument(f, "CanonicalUser/ID", name, "Invalid id");
    return s3acl_add(out, S3ACL_USER, permissions, arena_span(a, name))
               ? ERR_OK
               : too_many_grants(f);
}

static enum err
no_email(struct fault *f)
{
    return fault_set(f, S3_UnresolvableGrantByEmailAddress,
                     "Users have no e-mail addresses here: name the user by id");
}

/* NAME="VALUE" or NAME=VALUE. */
static bool
split_grantee(struct span item, struct span *name, struct span *value)
{
    const char *eq = memchr(item.at, '=', item.len);

    if (eq == NULL)
        return false;
    *name = span_trim((struct span){item.at, (size_t)(eq - item.at)});
    *value = span_trim(span_from(item, (size_t)(eq - item.at) + 1));
    if (value->len >= 2 && value->at[0] == '"' && value->at[value->len - 1] == '"')
        *value = (struct span){value->at + 1, value->len - 2};
    return true;
}

enum err
s3acl_add_header(struct span value, uint8_t permissions, struct arena *a,
                 struct s3acl *out, struct fault *f)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && value.len > 0) {
        const char *comma = memchr(value.at, ',', value.len);
        size_t len = comma != NULL ? (size_t)(comma - value.at) : value.len;
        struct span item = span_trim((struct span){value.at, len}), name, who;

        value = span_from(value, len + (comma != NULL));
        if (!split_grantee(item, &name, &who))
            return fault_argument(f, "x-amz-grant", item,
                                  "A grantee is id=\"NAME\" or uri=\"GROUP\"");
        if (span_case_is(name, "id"))
            rc = acl_add_user(out, permissions, who, a, f);
        else if (span_case_is(name, "uri"))
            rc = add_group(out, permissions, who, f);
        else if (span_case_is(name, "emailAddress"))
            rc = no_email(f);
        else
            rc = fault_argument(f, "x-amz-grant", item,
                                "A grantee is id=\"NAME\" or uri=\"GROUP\"");
    }
    return rc;
}

/* ---- the document ---- */

struct acl_reading {
    struct s3acl *out;
    struct arena *arena;
    struct fault *fault;
    bool in_list, in_grantee, has_list;
    struct span id, uri, email;
    uint8_t permissions;
};

static enum err
malformed_acl(struct acl_reading *r)
{
    return fault_set(r->fault, S3_MalformedACLError, NULL);
}

static enum err
acl_open(void *arg, unsigned depth, struct span name)
{
    struct acl_reading *r = arg;
    bool good = true;

    if (depth == 0)
        good = span_is(name, "AccessControlPolicy");
    else if (depth == 1 && span_is(name, "AccessControlList")) {
        good = !r->has_list;
        r->in_list = r->has_list = true;
    } else if (depth == 2 && r->in_list) {
        good = span_is(name, "Grant");
        r->id = r->uri = r->email = (struct span){NULL, 0};
        r->permissions = 0;
    } else if (depth == 3 && span_is(name, "Grantee")) {
        r->in_grantee = true;
    }
    return good ? ERR_OK : malformed_acl(r);
}

static enum err
end_of_grant(struct acl_reading *r)
{
    if (r->permissions == 0 ||
        (r->id.len > 0) + (r->uri.len > 0) + (r->email.len > 0) != 1)
        return malformed_acl(r);
    if (r->email.len > 0)
        return no_email(r->fault);
    return r->id.len > 0 ? acl_add_user(r->out, r->permissions, r->id, r->arena, r->fault)
                         : add_group(r->out, r->permissions, r->uri, r->fault);
}

static enum err
take_permission(struct acl_reading *r, struct span text)
{
    for (size_t i = 0; i < ARRAY_LEN(permission_names); i++)
        if (span_is(text, permission_names[i].name)) {
            r->permissions = permission_names[i].bits;
            return ERR_OK;
        }
    return malformed_acl(r);
}

static enum err
acl_close(void *arg, unsigned depth, struct span name, struct span text)
{
    struct acl_reading *r = arg;

    text = span_trim(text);
    if (depth == 1 && span_is(name, "AccessControlList"))
        r->in_list = false;
    else if (depth == 2 && r->in_list)
        return end_of_grant(r);
    else if (depth == 2 && span_is(name, "ID"))
        r->out->owner = arena_span(r->arena, text);
    else if (depth == 3 && span_is(name, "Grantee"))
        r->in_grantee = false;
    else if (depth == 3 && r->in_list && span_is(name, "Permission"))
        return take_permission(r, text);
    else if (depth == 4 && r->in_grantee && span_is(name, "ID"))
        r->id = arena_span(r->arena, text);
    else if (depth == 4 && r->in_grantee && span_is(name, "URI"))
        r->uri = arena_span(r->arena, text);
    else if (depth == 4 && r->in_grantee && span_is(name, "EmailAddress"))
        r->email = arena_span(r->arena, text);
    return ERR_OK;
}

enum err
s3acl_parse_document(struct span doc, struct arena *a, struct s3acl *out, struct fault *f)
{
    struct acl_reading r = {.out = out, .arena = a, .fault = f};
    struct xml_handler h = {
        .on_open = acl_open, .on_close = acl_close, .arg = &r, .text_max = 4096};
    struct errbuf eb = {{0}};
    enum err rc;

    out->owner = (struct span){NULL, 0};
    out->count = 0;
    f->code = S3_OK;
    rc = xml_read(doc, &h, &eb);
    if (rc != ERR_OK && f->code == S3_OK)
        return malformed_acl(&r);
    if (rc == ERR_OK && !r.has_list)
        return malformed_acl(&r);
    return rc;
}

static void
write_grantee(struct xml *x, const struct s3acl_grant *g)
{
    buf_puts(x->out, "<Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
                     "xsi:type=\"");
    buf_puts(x->out, g->kind == S3ACL_USER ? "CanonicalUser\">" : "Group\">");
    if (g->kind == S3ACL_USER) {
        xml_span(x, "ID", g->user);
        xml_span(x, "DisplayName", g->user);
    } else {
        xml_text(x, "URI", g->kind == S3ACL_ALL_USERS ? ALL_USERS : AUTHENTICATED);
    }
    buf_puts(x->out, "</Grantee>");
}

void
s3acl_write(const struct s3acl *acl, struct xml *x)
{
    xml_open(x, "Owner");
    xml_span(x, "ID", acl->owner);
    xml_span(x, "DisplayName", acl->owner);
    xml_close(x);
    xml_open(x, "AccessControlList");
    for (unsigned i = 0; i < acl->count; i++) {
        const struct s3acl_grant *g = &acl->grants[i];
        const char *name = s3acl_permission_name(g->permissions);

        assert(name != NULL); /* a grant has one permission */
        xml_open(x, "Grant");
        write_grantee(x, g);
        xml_text(x, "Permission", name);
        xml_close(x);
    }
    xml_close(x);
}

/* ---- kept ---- */

enum err
s3acl_encode(const struct s3acl *acl, struct arena *a, struct span *out, struct fault *f)
{
    struct buf text;

    buf_init(&text, S3ACL_KEPT_MAX);
    buf_put_span(&text, acl->owner);
    for (unsigned i = 0; i < acl->count; i++) {
        const struct s3acl_grant *g = &acl->grants[i];

        buf_printf(&text, "\n%u ", g->permissions);
        if (g->kind == S3ACL_USER) {
            buf_puts(&text, "user:");
            buf_put_span(&text, g->user);
        } else {
            buf_puts(&text,
                     g->kind == S3ACL_ALL_USERS ? "group:all" : "group:authenticated");
        }
    }
    if (text.full) {
        buf_fini(&text);
        return fault_set(f, S3_InvalidRequest,
                         "The access control list is over %u bytes of names",
                         S3ACL_KEPT_MAX);
    }
    *out = arena_span(a, buf_span(&text));
    buf_fini(&text);
    return ERR_OK;
}

static struct span
acl_next_line(struct span *rest)
{
    const char *end = memchr(rest->at, '\n', rest->len);
    struct span line = {rest->at, end != NULL ? (size_t)(end - rest->at) : rest->len};

    *rest = span_from(*rest, line.len + (end != NULL));
    return line;
}

static bool
decode_grant(struct span line, struct s3acl *out)
{
    const char *space = memchr(line.at, ' ', line.len);
    struct span number = {line.at, space != NULL ? (size_t)(space - line.at) : 0}, who;
    uint64_t bits;

    if (space == NULL || num_u64(number, &bits) != ERR_OK || bits == 0 ||
        bits > S3ACL_FULL_CONTROL || s3acl_permission_name((uint8_t)bits) == NULL)
        return false;
    who = span_from(line, number.len + 1);
    if (span_is(who, "group:all"))
        return s3acl_add(out, S3ACL_ALL_USERS, (uint8_t)bits, (struct span){NULL, 0});
    if (span_is(who, "group:authenticated"))
        return s3acl_add(out, S3ACL_AUTHENTICATED_USERS, (uint8_t)bits,
                         (struct span){NULL, 0});
    if (!span_starts(who, SPAN("user:")) || who.len == 5)
        return false;
    return s3acl_add(out, S3ACL_USER, (uint8_t)bits, span_from(who, 5));
}

bool
s3acl_decode(struct span kept, struct s3acl *out)
{
    out->count = 0;
    if (kept.len > S3ACL_KEPT_MAX)
        return false;
    out->owner = acl_next_line(&kept);
    while (kept.len > 0)
        if (!decode_grant(acl_next_line(&kept), out))
            return false;
    return true;
}

/* ---- asking ---- */

uint8_t
s3acl_permissions(const struct s3acl *acl, struct span user, bool ignore_public)
{
    bool is_signed = user.at != NULL;
    unsigned have = 0;

    if (is_signed && acl->owner.len > 0 && span_eq(user, acl->owner))
        have |= S3ACL_READ_ACP | S3ACL_WRITE_ACP;
    for (unsigned i = 0; i < acl->count; i++) {
        const struct s3acl_grant *g = &acl->grants[i];

        if (g->kind == S3ACL_USER ? is_signed && span_eq(g->user, user)
            : ignore_public       ? false
                                  : g->kind == S3ACL_ALL_USERS || is_signed)
            have |= g->permissions;
    }
    assert(have <= S3ACL_FULL_CONTROL);
    return (uint8_t)have;
}

bool
s3acl_is_public(const struct s3acl *acl)
{
    for (unsigned i = 0; i < acl->count; i++)
        if (acl->grants[i].kind != S3ACL_USER)
            return true;
    return false;
}
