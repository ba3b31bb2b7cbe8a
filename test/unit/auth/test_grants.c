/* auth: what grants give and do not; users in meta: made, changed, removed, their records, and after a restart. */
#include <unistd.h>

#include "auth/auth.h"
#include "auth/user.h"
#include "base/mem.h"
#include "check.h"
#include "rt/loop.h"
#include "rt/time.h"

static char folder[] = "/tmp/fb-grants-XXXXXX";

static void
test_what_a_grant_gives(void)
{
    static const struct {
        auth_rights rights;
        const char *bucket, *prefix;
        auth_rights asked;
        const char *in, *key;
        bool gives;
    } rows[] = {
        {AUTH_READ, "b", "", AUTH_READ, "b", "k", true},
        {AUTH_READ, "b", "", AUTH_WRITE, "b", "k", false},
        {AUTH_READ, "b", "", AUTH_GET_OBJECT, "b", "k", true},
        {AUTH_GET_OBJECT, "b", "", AUTH_READ, "b", "k", false},
        {AUTH_PUT_OBJECT, "b", "", AUTH_PUT_OBJECT, "b", "k", true},
        {AUTH_ADMINISTER, "b", "", AUTH_WRITE, "b", "k", false},
        {AUTH_READ, "b", "", AUTH_READ, "bb", "k", false},
        {AUTH_READ, "b", "", AUTH_READ, "", "k", false},
        {AUTH_READ, "b", "p/", AUTH_READ, "b", "p/k", true},
        {AUTH_READ, "b", "p/", AUTH_READ, "b", "p", false},
        {AUTH_READ, "b", "p/", AUTH_READ, "b", "q/p/", false},
        {AUTH_LIST, "b", "p/", AUTH_LIST, "b", "", false},
        {AUTH_LIST, "b", "p/", AUTH_LIST, "b", "p/sub", true},
        {AUTH_READ | AUTH_LIST, "*", "", AUTH_LIST, "any", "", true},
        {AUTH_ADMIN, "*", "", AUTH_ADMIN, "*", "", true},
        {AUTH_ADMIN, "b", "", AUTH_ADMIN, "*", "", false},
        {AUTH_ADMIN, "b", "", AUTH_WRITE, "b", "k", true},
        {AUTH_ADMIN, "b", "p/", AUTH_ADMIN, "b", "", false},
        {AUTH_READ | AUTH_WRITE | AUTH_LIST, "*", "", AUTH_ADMIN, "b", "", false},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct auth_grant g = {rows[i].rights, (char *)(uintptr_t)rows[i].bucket,
                               (char *)(uintptr_t)rows[i].prefix};

        CHECK(auth_rights_include(
                  auth_grant_rights(&g, span_of(rows[i].in), span_of(rows[i].key)),
                  rows[i].asked) == rows[i].gives);
    }
}

static void
test_rights_as_text(void)
{
    static const struct {
        const char *text;
        auth_rights rights;
        const char *back, *says;
    } rows[] = {
        {"read", AUTH_READ, "read", ""},
        {"list, read", AUTH_READ | AUTH_LIST, "read,list", ""},
        {"read,write,list,admin", AUTH_ALL, "all", ""},
        {"all", AUTH_ALL, "all", ""},
        {"get-object,list", AUTH_GET_OBJECT | AUTH_LIST, "list,get-object", ""},
        {"get-object,head-object", AUTH_READ, "read", ""},
        {"", 0, "none", "no right is named"},
        {"reed", 0, "none", "\"reed\" is no right"},
        {"read,", AUTH_READ, "read", ""},
        {"read,,list", 0, "none", "\"\" is no right"},
    };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct errbuf eb = {{0}};
        auth_rights rights = 0;
        char text[AUTH_RIGHTS_TEXT];
        enum err rc = auth_rights_parse(span_of(rows[i].text), &rights, &eb);

        CHECK((rc == ERR_OK) == (rows[i].says[0] == '\0'));
        CHECK_SAYS(eb.text, rows[i].says);
        if (rc == ERR_OK) {
            CHECK_U64(rights, rows[i].rights);
            CHECK_STR(auth_rights_text(rights, text), rows[i].back);
        }
    }
}

/* Two grants give together what neither gives alone. */
static void
test_rights_add_up(void)
{
    char bucket[] = "b", every[] = "*", none[] = "";
    struct auth_grant grants[] = {{AUTH_GET_OBJECT, bucket, none},
                                  {AUTH_HEAD_OBJECT, every, none}};
    struct auth_user u = {.name = "u", .grant_count = 2, .grants = grants};

    CHECK(auth_may(&u, AUTH_READ, SPAN("b"), SPAN("k")));
    CHECK(!auth_may(&u, AUTH_READ, SPAN("c"), SPAN("k")));
    CHECK(auth_may(&u, AUTH_HEAD_OBJECT, SPAN("c"), SPAN("k")));
}

static void
test_records_there_and_back(void)
{
    struct user *u = user_new(SPAN("alice"), 1234567890123), *back = NULL;
    struct errbuf eb = {{0}};
    struct buf one, two;

    REQUIRE(user_add_key(u, SPAN("ID1"), SPAN("S1"), SPAN(""), 5, 0, &eb) == ERR_OK);
    REQUIRE(user_add_key(u, SPAN("ID2"), SPAN("S2"), SPAN("T2"), 6, 77, &eb) == ERR_OK);
    REQUIRE(user_grant(u, AUTH_READ, SPAN("b"), SPAN("p/"), &eb) == ERR_OK);
    REQUIRE(user_grant(u, AUTH_LIST, SPAN("b"), SPAN("p/"), &eb) == ERR_OK);
    REQUIRE(user_grant(u, AUTH_ADMIN, SPAN("*"), SPAN(""), &eb) == ERR_OK);
    REQUIRE(user_grant(u, AUTH_GET_OBJECT | AUTH_LIST, SPAN("c"), SPAN(""), &eb) ==
            ERR_OK);
    CHECK_U64(u->grant_count, 3);
    buf_init(&one, 65536);
    buf_init(&two, 65536);
    user_encode(u, &one);
    REQUIRE(user_decode(buf_span(&one), &back, &eb) == ERR_OK);
    CHECK_STR(back->name, "alice");
    CHECK_U64(back->key_count, 2);
    CHECK(back->keys[0].token == NULL);
    CHECK_STR(back->keys[1].token, "T2");
    CHECK_U64((uint64_t)back->keys[1].expires_ms, 77);
    CHECK_U64(back->grants[0].rights, AUTH_READ | AUTH_LIST);
    CHECK_U64(back->grants[2].rights, AUTH_GET_OBJECT | AUTH_LIST);
    user_encode(back, &two);
    CHECK(span_eq(buf_span(&one), buf_span(&two)));
    user_free(&back);
    for (size_t len = 0; len < one.len; len++)
        CHECK(user_decode((struct span){one.at, len}, &back, &eb) != ERR_OK &&
              back == NULL);
    CHECK(user_revoke(u, AUTH_READ, SPAN("b"), SPAN(""), &eb) == ERR_NOT_FOUND);
    CHECK(user_revoke(u, AUTH_READ, SPAN("b"), SPAN("p/"), &eb) == ERR_OK);
    CHECK(user_revoke(u, AUTH_READ, SPAN("b"), SPAN("p/"), &eb) == ERR_NOT_FOUND);
    CHECK(user_revoke(u, AUTH_ALL, SPAN("b"), SPAN("p/"), &eb) == ERR_OK);
    CHECK_U64(u->grant_count, 2);
    buf_fini(&one);
    buf_fini(&two);
    user_free(&u);
}

static const struct {
    const char *name;
    bool ok;
} user_names[] = {
    {"a", true},     {"alice.b-c_d@x+1", true},
    {"", false},     {"-a", false},
    {"a b", false},  {"a/b", false},
    {"a\n", false},  {"\xc3\xa9", false},
    {"a\"b", false}, {"a<b", false},
};

static void
test_names(void)
{
    char name[USER_NAME_MAX + 2];
    struct errbuf eb = {{0}};

    for (size_t i = 0; i < ARRAY_LEN(user_names); i++)
        CHECK((user_name_check(span_of(user_names[i].name), &eb) == ERR_OK) ==
              user_names[i].ok);
    memset(name, 'a', sizeof name);
    CHECK(user_name_check((struct span){name, USER_NAME_MAX}, &eb) == ERR_OK);
    CHECK(user_name_check((struct span){name, USER_NAME_MAX + 1}, &eb) != ERR_OK);
}

/* ---- in meta ---- */

static struct meta *meta;
static struct auth *a;

static void
open_users(struct rt_dir *dir)
{
    struct auth_options o = {.required = true};
    struct errbuf eb = {{0}};

    REQUIRE(meta_open_embedded(dir, &meta, &eb) == ERR_OK);
    REQUIRE(auth_new(&o, &a, &eb) == ERR_OK);
    REQUIRE(auth_make_first(a, dir, "credentials", &eb) == ERR_OK);
    REQUIRE(auth_load_meta(a, meta, &eb) == ERR_OK);
}

static void
close_users(void)
{
    auth_free(&a);
    meta_close(&meta);
}

static void
rotate(void)
{
    struct auth_new_key first, second;
    struct errbuf eb = {{0}};

    REQUIRE(auth_user_add(a, SPAN("turner"), &first, &eb) == ERR_OK);
    REQUIRE(auth_user_rotate(a, SPAN("turner"), 60000, &second, &eb) == ERR_OK);
    REQUIRE(auth_find(a, span_of(first.id)) != NULL);
    CHECK(auth_find(a, span_of(first.id))->expires_ms > 0);
    CHECK(auth_find(a, span_of(second.id))->expires_ms == 0);
    REQUIRE(auth_user_rotate(a, SPAN("turner"), 0, &first, &eb) == ERR_OK);
    CHECK(auth_find(a, span_of(second.id)) == NULL);
    CHECK(auth_find(a, span_of(first.id)) != NULL);
    auth_new_key_wipe(&first);
    CHECK_STR(first.secret, "");
}

static void
refused(void)
{
    struct auth_new_key made;
    struct errbuf eb = {{0}};

    CHECK(auth_user_add(a, SPAN("alice"), &made, &eb) == ERR_EXISTS);
    CHECK_STR(made.secret, "");
    CHECK(auth_user_add(a, SPAN("default"), &made, &eb) == ERR_EXISTS);
    CHECK(auth_user_add(a, SPAN("../x"), &made, &eb) == ERR_BAD_REQUEST);
    CHECK(auth_user_remove(a, SPAN("default"), &eb) == ERR_DENIED);
    CHECK_SAYS(eb.text, "stands in a file");
    CHECK(auth_user_remove(a, SPAN("unknown"), &eb) == ERR_NOT_FOUND);
    CHECK(auth_user_grant(a, SPAN("alice"), AUTH_READ, SPAN("*"), SPAN("p"), &eb) ==
          ERR_BAD_REQUEST);
    CHECK(auth_user_grant(a, SPAN("alice"), 0, SPAN("b"), SPAN(""), &eb) ==
          ERR_BAD_REQUEST);
    CHECK(auth_user_temporary(a, SPAN("alice"), AUTH_TEMPORARY_MS + 1, &made, &eb) ==
          ERR_BAD_REQUEST);
}

static void
world(void *arg)
{
    struct rt_dir *dir = NULL;
    struct auth_new_key key, temporary;
    struct errbuf eb = {{0}};
    const struct auth_key *k;

    (void)arg;
    REQUIRE(rt_dir_open(folder, &dir, &eb) == ERR_OK);
    open_users(dir);
    CHECK_U64(auth_users_count(auth_users_now(a)), 1);
    REQUIRE(auth_user_add(a, SPAN("alice"), &key, &eb) == ERR_OK);
    CHECK_STR(key.token, "");
    k = auth_find(a, span_of(key.id));
    REQUIRE(k != NULL);
    CHECK_STR(k->secret, key.secret);
    CHECK(!auth_has_any_right(k->user, SPAN("b")));
    REQUIRE(auth_user_grant(a, SPAN("alice"), AUTH_READ, SPAN("b"), SPAN("p/"), &eb) ==
            ERR_OK);
    k = auth_find(a, span_of(key.id));
    CHECK(auth_may(k->user, AUTH_READ, SPAN("b"), SPAN("p/x")));
    CHECK(!auth_may(k->user, AUTH_READ, SPAN("b"), SPAN("x")));
    CHECK(auth_has_any_right(k->user, SPAN("b")) &&
          !auth_has_any_right(k->user, SPAN("c")));
    REQUIRE(auth_user_temporary(a, SPAN("alice"), 1000, &temporary, &eb) == ERR_OK);
    CHECK_U64(strlen(temporary.token), 64);
    CHECK(temporary.expires_ms > (int64_t)(rt_wall_ns() / 1000000u));
    refused();
    rotate();
    close_users();

    open_users(dir); /* after a restart all of it stands */
    CHECK_U64(auth_users_count(auth_users_now(a)), 3);
    k = auth_find(a, span_of(key.id));
    REQUIRE(k != NULL && auth_find(a, span_of(temporary.id)) != NULL);
    CHECK_STR(auth_find(a, span_of(temporary.id))->token, temporary.token);
    CHECK(auth_may(k->user, AUTH_READ, SPAN("b"), SPAN("p/x")));
    REQUIRE(auth_user_revoke(a, SPAN("alice"), AUTH_READ, SPAN("b"), SPAN("p/"), &eb) ==
            ERR_OK);
    CHECK(!auth_has_any_right(auth_find(a, span_of(key.id))->user, SPAN("b")));
    REQUIRE(auth_user_remove(a, SPAN("alice"), &eb) == ERR_OK);
    CHECK(auth_find(a, span_of(key.id)) == NULL);
    CHECK(auth_find(a, span_of(temporary.id)) == NULL);
    close_users();
    rt_dir_close(&dir);
}

static void
test_users_in_meta(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1};
    struct errbuf eb = {{0}};
    char command[128];

    REQUIRE(mkdtemp(folder) != NULL);
    CHECK(rt_run(&o, world, NULL, &eb) == ERR_OK);
    snprintf(command, sizeof command, "rm -r %s", folder);
    CHECK(system(command) == 0);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_what_a_grant_gives);
    RUN(test_rights_as_text);
    RUN(test_rights_add_up);
    RUN(test_records_there_and_back);
    RUN(test_names);
    RUN(test_users_in_meta);
    return check_done();
}
