/* user: who may use a server, and for what. Everything goes through its pages under /_/users. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/grant.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/session.h"
#include "wire/json.h"

/* ---- what several verbs do ---- */

static void
print_key(const struct session *s, struct span answer)
{
    json_t *doc;
    const char *token, *expires;

    if (s->json) {
        printf("%.*s\n", SPAN_ARG(answer));
        return;
    }
    doc = json_loadb(answer.at, answer.len, 0, NULL);
    token = json_string_value(json_object_get(doc, "session_token"));
    expires = json_string_value(json_object_get(doc, "expires"));
    /* As a profile of an AWS credentials file, so that it can be appended to one. */
    printf("[%s]\naws_access_key_id = %s\naws_secret_access_key = %s\n",
           json_string_value(json_object_get(doc, "name")),
           json_string_value(json_object_get(doc, "access_key")),
           json_string_value(json_object_get(doc, "secret_key")));
    if (token != NULL)
        printf("aws_session_token = %s\n", token);
    if (expires != NULL)
        printf("# ends %s\n", expires);
    json_decref(doc);
}

/* POST /_/users/NAME/WHAT */
static enum err
post(struct session *s, struct arena *a, const char *name, const char *what,
     const struct buf *doc, struct span *answer)
{
    struct s3_request r = {.method = "POST", .body = buf_span(doc)};

    r.path = span_of(arena_printf(a, "/_/users%s%s%s%s", name != NULL ? "/" : "",
                                  name != NULL ? name : "", what != NULL ? "/" : "",
                                  what != NULL ? what : ""));
    return admin_call(s, &r, a, answer);
}

static enum err
grant_document(struct buf *out, const char *rights, const char *where, struct errbuf *eb)
{
    struct span bucket, prefix;
    struct place p;
    struct json j;
    unsigned bits;
    enum err rc = auth_rights_parse(span_of(rights), &bits, eb);

    bucket = span_of(where);
    prefix = (struct span){"", 0};
    if (rc == ERR_OK && strcmp(where, AUTH_EVERY_BUCKET) != 0) {
        rc = place_remote(where, false, &p, eb);
        if (rc == ERR_OK) {
            bucket = p.bucket;
            prefix = p.key;
        }
    }
    if (rc == ERR_OK)
        rc = auth_grant_check(bits, bucket, prefix, eb);
    if (rc != ERR_OK)
        return rc;
    json_begin(&j, out);
    json_open_object(&j, NULL);
    json_text(&j, "rights", rights);
    json_span(&j, "bucket", bucket);
    json_span(&j, "prefix", prefix);
    json_end(&j);
    return ERR_OK;
}

static enum exit_code
user_end(struct session *s, struct arena **a, struct buf *doc, enum err rc)
{
    if (doc != NULL)
        buf_fini(doc);
    arena_free(a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

/* ---- add ---- */

static const struct flag add_flags[] = {
    {"grant", 'g', "RIGHTS:WHERE",
     "initial right: read,list:s3://BUCKET/PREFIX, or all:*", true},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const add_examples[] = {
    "forebay user add alice -g read,list:s3://imagenet",
    "forebay user add ci -g write:s3://builds/nightly/ >> ~/.aws/credentials",
    NULL,
};
static const struct verb add = {
    .name = "user add",
    .summary = "create a user and print the key, which is shown only once",
    .arguments = "NAME",
    .least = 1,
    .most = 1,
    .examples = add_examples,
    .flags = add_flags,
};

/* "read,list:s3://bucket/prefix" */
static enum err
give_one(struct session *s, struct arena *a, const char *name, const char *text)
{
    const char *colon = strchr(text, ':');
    struct span answer;
    struct buf doc;
    enum err rc;

    if (colon == NULL)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "--grant \"%s\": expected RIGHTS:WHERE, as read:s3://BUCKET",
                       text);
    buf_init(&doc, KIB(8));
    rc =
        grant_document(&doc, arena_strdup(a, (struct span){text, (size_t)(colon - text)}),
                       colon + 1, &s->eb);
    if (rc == ERR_OK)
        rc = post(s, a, name, "grants", &doc, &answer);
    buf_fini(&doc);
    return rc;
}

static enum exit_code
add_user(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    const char *name = s->args->at[0], *grant;
    struct span answer = {"", 0};
    struct buf doc, check;
    struct json j;
    enum err rc = ERR_OK;

    buf_init(&check, KIB(8));
    buf_init(&doc, KIB(8));
    for (size_t i = 0; rc == ERR_OK && (grant = args_nth(s->args, "grant", i)) != NULL;
         i++) { /* all are looked at before anything is made */
        const char *colon = strchr(grant, ':');

        if (colon == NULL)
            rc = err_set(&s->eb, ERR_BAD_REQUEST,
                         "--grant \"%s\": expected RIGHTS:WHERE, as read:s3://BUCKET",
                         grant);
        else
            rc = grant_document(
                &check, arena_strdup(a, (struct span){grant, (size_t)(colon - grant)}),
                colon + 1, &s->eb);
    }
    buf_fini(&check);
    json_begin(&j, &doc);
    json_open_object(&j, NULL);
    json_text(&j, "name", name);
    json_end(&j);
    if (rc == ERR_OK)
        rc = post(s, a, NULL, NULL, &doc, &answer);
    if (rc == ERR_OK)
        print_key(s, answer); /* also when a grant below fails: it is not shown again */
    for (size_t i = 0; rc == ERR_OK && (grant = args_nth(s->args, "grant", i)) != NULL;
         i++)
        rc = give_one(s, a, name, grant);
    return user_end(s, &a, &doc, rc);
}

static enum exit_code
run_add(const struct args *a)
{
    return session_run(a, add_user, NULL);
}
static const struct cli_verb cli_user_add = {&add, run_add};

/* ---- ls ---- */

static const struct flag plain_flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const ls_examples[] = {"forebay user ls", "forebay user ls --json",
                                          NULL};
static const struct verb ls = {
    .name = "user ls",
    .summary = "list users, their keys and grants",
    .arguments = "",
    .examples = ls_examples,
    .flags = plain_flags,
};

static void
print_limits(const json_t *l)
{
    static const char *const names[] = {"requests", "bytes", "parts"};
    static const char *const units[] = {"requests/s", "bytes/s", "parts at once"};

    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (json_object_get(l, names[i]) != NULL)
            printf("    limit  %lld %s\n",
                   (long long)json_integer_value(json_object_get(l, names[i])), units[i]);
}

static void
print_user(const json_t *u)
{
    size_t i;
    json_t *v;

    printf("%s%s\n", json_string_value(json_object_get(u, "name")),
           json_is_true(json_object_get(u, "from_file")) ? "  (from a file)" : "");
    json_array_foreach(json_object_get(u, "keys"), i, v)
    {
        const char *expires = json_string_value(json_object_get(v, "expires"));

        printf("    key    %s%s%s%s\n",
               json_string_value(json_object_get(v, "access_key")),
               json_is_true(json_object_get(v, "temporary")) ? "  temporary" : "",
               expires != NULL ? "  ends " : "", expires != NULL ? expires : "");
    }
    print_limits(json_object_get(u, "limits"));
    json_array_foreach(json_object_get(u, "grants"), i, v)
    {
        const char *bucket = json_string_value(json_object_get(v, "bucket"));
        bool every = bucket != NULL && strcmp(bucket, AUTH_EVERY_BUCKET) == 0;

        printf("    may    %s on %s%s%s%s\n",
               json_string_value(json_object_get(v, "rights")), every ? "" : "s3://",
               bucket, every ? "" : "/", json_string_value(json_object_get(v, "prefix")));
    }
}

static enum exit_code
list_users(struct session *s)
{
    struct arena *a = arena_new(KIB(64), MIB(32));
    struct s3_request r = {.method = "GET", .path = SPAN("/_/users")};
    struct span answer = {"", 0};
    enum err rc = admin_call(s, &r, a, &answer);

    if (rc == ERR_OK && !admin_print(s, answer, "users", "", "name")) {
        json_t *doc, *u;
        size_t i;

        rc = admin_list(s, answer, "users", &doc);
        json_array_foreach(json_object_get(doc, "users"), i, u) print_user(u);
        json_decref(doc);
    }
    return user_end(s, &a, NULL, rc);
}

static enum exit_code
run_ls(const struct args *a)
{
    return session_run(a, list_users, NULL);
}
static const struct cli_verb cli_user_ls = {&ls, run_ls};

/* ---- rm ---- */

static const char *const rm_examples[] = {"forebay user rm alice", NULL};
static const struct verb rm = {
    .name = "user rm",
    .summary = "remove a user and invalidate the user's keys",
    .arguments = "NAME...",
    .least = 1,
    .most = 100,
    .examples = rm_examples,
    .flags = plain_flags,
};

static enum exit_code
remove_users(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    enum err rc = ERR_OK;

    for (size_t i = 0; i < s->args->count && rc == ERR_OK; i++) {
        struct s3_request r = {.method = "DELETE"};
        struct span answer;

        r.path = span_of(arena_printf(a, "/_/users/%s", s->args->at[i]));
        rc = admin_call(s, &r, a, &answer);
        if (rc == ERR_OK && !s->quiet && !s->json)
            printf("removed user %s\n", s->args->at[i]);
    }
    return user_end(s, &a, NULL, rc);
}

static enum exit_code
run_rm(const struct args *a)
{
    return session_run(a, remove_users, NULL);
}
static const struct cli_verb cli_user_rm = {&rm, run_rm};

/* ---- rotate, temp ---- */

static const struct flag rotate_flags[] = {
    {"keep", 0, "TIME", "grace time of the old keys: 24h, 30m; default 0", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const rotate_examples[] = {"forebay user rotate alice --keep 24h",
                                              NULL};
static const struct verb rotate = {
    .name = "user rotate",
    .summary = "replace the keys of a user",
    .arguments = "NAME",
    .least = 1,
    .most = 1,
    .examples = rotate_examples,
    .flags = rotate_flags,
};
static const struct flag temp_flags[] = {
    {"expires", 0, "TIME", "lifetime: default 1h, at most 7d", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const temp_examples[] = {"forebay user temp alice --expires 12h",
                                            NULL};
static const struct verb temp = {
    .name = "user temp",
    .summary = "make a temporary key with a session token; it may do what the user may",
    .arguments = "NAME",
    .least = 1,
    .most = 1,
    .examples = temp_examples,
    .flags = temp_flags,
};

static enum exit_code
user_make_key(struct session *s, const char *flag, const char *fallback,
              const char *member)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    const char *given = args_value(s->args, flag);
    struct span answer = {"", 0};
    uint64_t ms = 0;
    struct buf doc;
    struct json j;
    enum err rc = num_duration_ms(span_of(given != NULL ? given : fallback), &ms, &s->eb);

    if (rc != ERR_OK)
        err_prefix(&s->eb, "--%s", flag);
    buf_init(&doc, KIB(1));
    json_begin(&j, &doc);
    json_open_object(&j, NULL);
    json_u64(&j, member, ms / 1000);
    json_end(&j);
    if (rc == ERR_OK)
        rc = post(s, a, s->args->at[0], "keys", &doc, &answer);
    if (rc == ERR_OK)
        print_key(s, answer);
    return user_end(s, &a, &doc, rc);
}

static enum exit_code
rotate_key(struct session *s)
{
    return user_make_key(s, "keep", "0s", "keep_s");
}

static enum exit_code
run_rotate(const struct args *a)
{
    return session_run(a, rotate_key, NULL);
}
static const struct cli_verb cli_user_rotate = {&rotate, run_rotate};

static enum exit_code
temporary_key(struct session *s)
{
    return user_make_key(s, "expires", "1h", "expires_s");
}

static enum exit_code
run_temp(const struct args *a)
{
    return session_run(a, temporary_key, NULL);
}
static const struct cli_verb cli_user_temp = {&temp, run_temp};

/* ---- grant, revoke ---- */

static const char *const grant_examples[] = {
    "forebay user grant alice read,list s3://imagenet",
    "forebay user grant ci write s3://builds/nightly/",
    "forebay user grant ops admin '*'",
    NULL,
};
static const struct verb grant = {
    .name = "user grant",
    .summary = "let a user read, write, list or administer",
    .arguments = "NAME RIGHTS s3://BUCKET[/PREFIX] | '*'",
    .least = 3,
    .most = 3,
    .examples = grant_examples,
    .flags = plain_flags,
    .more =
        "Rights are read, write, list, admin, or all of them; admin includes the others. "
        "A prefix is compared byte by byte:\n"
        "s3://b/a covers the keys a, a/x and ab. admin on '*' opens the pages under /_/.",
};
static const char *const revoke_examples[] = {
    "forebay user revoke alice write s3://imagenet", NULL};
static const struct verb revoke = {
    .name = "user revoke",
    .summary = "revoke rights of a grant on exactly that place",
    .arguments = "NAME RIGHTS s3://BUCKET[/PREFIX] | '*'",
    .least = 3,
    .most = 3,
    .examples = revoke_examples,
    .flags = plain_flags,
};

static enum exit_code
change_grant(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    const char *what = s->arg;
    struct span answer;
    struct buf doc;
    enum err rc;

    buf_init(&doc, KIB(8));
    rc = grant_document(&doc, s->args->at[1], s->args->at[2], &s->eb);
    if (rc == ERR_OK)
        rc = post(s, a, s->args->at[0], what, &doc, &answer);
    return user_end(s, &a, &doc, rc);
}

static enum exit_code
run_grant(const struct args *a)
{
    return session_run(a, change_grant, (void *)(uintptr_t) "grants");
}
static const struct cli_verb cli_user_grant = {&grant, run_grant};

static enum exit_code
run_revoke(const struct args *a)
{
    return session_run(a, change_grant, (void *)(uintptr_t) "revoke");
}
static const struct cli_verb cli_user_revoke = {&revoke, run_revoke};

/* ---- set ---- */

static const struct flag set_flags[] = {
    {"requests-per-second", 0, "N", "above it the answer is SlowDown; none: no limit",
     false},
    {"bytes-per-second", 0, "SIZE", "of bodies, both ways, as 100MiB; none: no limit",
     false},
    {"parts", 0, "N", "of uploads at the same time; none: no limit", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false},
};
static const char *const set_examples[] = {
    "forebay user set ci --requests-per-second 500 --bytes-per-second 100MiB",
    "forebay user set ci --parts none", NULL};
static const struct verb set = {
    .name = "user set",
    .summary = "set limits of a user",
    .arguments = "NAME",
    .least = 1,
    .most = 1,
    .examples = set_examples,
    .flags = set_flags,
    .more = "A burst of one second is allowed. Limits are per node; limits "
            "that are not named stay.",
};

static enum err
put_limit(struct session *s, struct json *j, const char *flag, const char *name,
          bool *any)
{
    const char *text = args_value(s->args, flag);
    uint64_t n = 0;

    if (text == NULL)
        return ERR_OK;
    *any = true;
    if (strcmp(text, "none") == 0) {
        json_put_null(j, name);
        return ERR_OK;
    }
    if ((strcmp(name, "bytes") == 0 ? num_size(span_of(text), &n, &s->eb)
                                    : num_u64(span_of(text), &n)) != ERR_OK ||
        n == 0)
        return err_set(&s->eb, ERR_BAD_REQUEST,
                       "--%s \"%s\": expected a number from 1 on, or none", flag, text);
    json_u64(j, name, n);
    return ERR_OK;
}

static enum exit_code
set_limits(struct session *s)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct span answer;
    struct buf doc;
    struct json j;
    bool any = false;
    enum err rc;

    buf_init(&doc, KIB(1));
    json_begin(&j, &doc);
    json_open_object(&j, NULL);
    rc = put_limit(s, &j, "requests-per-second", "requests", &any);
    if (rc == ERR_OK)
        rc = put_limit(s, &j, "bytes-per-second", "bytes", &any);
    if (rc == ERR_OK)
        rc = put_limit(s, &j, "parts", "parts", &any);
    json_end(&j);
    if (rc == ERR_OK && !any)
        rc = err_set(&s->eb, ERR_BAD_REQUEST,
                     "user set needs a limit; see user set --help");
    if (rc == ERR_OK)
        rc = post(s, a, s->args->at[0], "limits", &doc, &answer);
    return user_end(s, &a, &doc, rc);
}

static enum exit_code
run_set(const struct args *a)
{
    return session_run(a, set_limits, NULL);
}
static const struct cli_verb cli_user_set = {&set, run_set};

/* ---- the group ---- */

static const struct cli_verb *const user_verbs[] = {
    &cli_user_add,    &cli_user_ls,   &cli_user_rm,
    &cli_user_rotate, &cli_user_temp, &cli_user_grant,
    &cli_user_revoke, &cli_user_set,  NULL,
};
static const struct verb user = {
    .name = "user",
    .summary = "users of a server: add, ls, rm, rotate, temp, grant, revoke, set",
    .arguments = "VERB",
};
const struct cli_group cli_user_group = {&user, user_verbs};
