/* The command line: every form of a flag, every mistake in words, and the help page to
 * the byte. */
#include "conf/flags.h"

#include "base/mem.h"
#include "check.h"

static const struct flag common[] = {
    {"endpoint-url", 0, "URL", "the server", false},
    {"json", 0, NULL, "short for -o json", false},
    {0},
};
static const struct flag cp_flags[] = {
    {"recursive", 'r', NULL, "all below", false},
    {"force", 'f', NULL, "ask nothing", false},
    {"jobs", 'j', "N", "at once", false},
    {"set", 0, "NAME=VALUE", "an option", true},
    {0},
};
static const char *const cp_examples[] = {"forebay cp a s3://b/c", NULL};
static const struct verb cp = {
    .name = "cp",
    .summary = "copies objects and files",
    .arguments = "SOURCE... DEST",
    .least = 2,
    .most = 4,
    .examples = cp_examples,
    .flags = cp_flags,
    .common = common,
};
static const struct verb ls = {
    .name = "ls", .summary = "lists", .arguments = "[PATH]", .most = 1, .common = common};
static const struct verb version = {
    .name = "version", .summary = "says which", .arguments = ""};
static const struct verb *const verbs[] = {&cp, &ls, &version, NULL};

#define PARSE(verb, a, eb, ...)                                                          \
    flags_parse((verb), (int)ARRAY_LEN(((char *[]){__VA_ARGS__})),                       \
                (char *[]){__VA_ARGS__}, (a), (eb))

static void
test_forms(void)
{
    struct errbuf eb = {0};
    struct args a;

    REQUIRE(PARSE(&cp, &a, &eb, "-rf", "one", "--jobs=4", "--set", "a=1", "two",
                  "--set=b=2", "--json", "--", "-three") == ERR_OK);
    CHECK(a.count == 3);
    CHECK_STR(a.at[0], "one");
    CHECK_STR(a.at[1], "two");
    CHECK_STR(a.at[2], "-three");
    CHECK(args_has(&a, "recursive") && args_has(&a, "force") && args_has(&a, "json"));
    CHECK(!args_has(&a, "endpoint-url") && args_value(&a, "endpoint-url") == NULL);
    CHECK_STR(args_value(&a, "jobs"), "4");
    CHECK_STR(args_nth(&a, "set", 0), "a=1");
    CHECK_STR(args_nth(&a, "set", 1), "b=2");
    CHECK(args_nth(&a, "set", 2) == NULL);
    CHECK_STR(args_value(&a, "set"), "b=2");
    args_fini(&a);
    args_fini(&a);
    REQUIRE(PARSE(&cp, &a, &eb, "-rj4", "-", "b") == ERR_OK);
    CHECK_STR(args_value(&a, "jobs"), "4");
    CHECK_STR(a.at[0], "-"); /* standard input */
    args_fini(&a);
    REQUIRE(PARSE(&cp, &a, &eb, "-j", "-1", "a", "b") ==
            ERR_OK); /* the next word, whatever it is */
    CHECK_STR(args_value(&a, "jobs"), "-1");
    args_fini(&a);
    REQUIRE(PARSE(&cp, &a, &eb, "--jobs=", "a", "b") == ERR_OK);
    CHECK_STR(args_value(&a, "jobs"), "");
    args_fini(&a);
}

static void
says(const struct verb *v, char *const *argv, int argc, const char *want)
{
    struct errbuf eb = {0};
    struct args a;

    CHECK(flags_parse(v, argc, argv, &a, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, want);
}
#define SAYS(v, want, ...)                                                               \
    says((v), (char *[]){__VA_ARGS__}, (int)ARRAY_LEN(((char *[]){__VA_ARGS__})), (want))

static void
test_mistakes(void)
{
    SAYS(&cp, "cp has no flag \"--recursiv\": did you mean \"--recursive\"?",
         "--recursiv", "a", "b");
    SAYS(&cp, "did you mean \"--endpoint-url\"?", "--endpoint-ulr=x", "a", "b");
    SAYS(&cp, "cp has no flag \"--zebra\"", "--zebra", "a", "b");
    SAYS(&cp, "cp has no flag \"-x\"", "-rx", "a", "b");
    SAYS(&cp, "--jobs wants a value: --jobs N", "a", "b", "--jobs");
    SAYS(&cp, "--jobs wants a value", "a", "b", "-j");
    SAYS(&cp, "--force takes no value, got \"yes\"", "--force=yes", "a", "b");
    SAYS(&cp, "--jobs is given twice", "-j1", "--jobs=2", "a", "b");
    SAYS(&cp, "--force is given twice", "-ff", "a", "b");
    SAYS(&cp, "cp wants at least SOURCE... DEST", "a");
    SAYS(&cp, "cp does not take \"e\": its arguments are SOURCE... DEST", "a", "b", "c",
         "d", "e");
    SAYS(&version, "version does not take \"x\": its arguments are none", "x");
    SAYS(&version, "version has no flag \"--json\"", "--json");
}

#define LEAD(count, eb, ...)                                                             \
    flags_lead(common, (int)ARRAY_LEN(((char *[]){__VA_ARGS__})),                        \
               (char *[]){__VA_ARGS__}, (count), (eb))

/* Flags that all verbs have, before the verb. */
static void
test_flags_before_the_verb(void)
{
    struct errbuf eb = {0};
    int count;

    CHECK(LEAD(&count, &eb, "ls", "--json") == ERR_OK && count == 0);
    CHECK(LEAD(&count, &eb, "--json", "ls") == ERR_OK && count == 1);
    CHECK(LEAD(&count, &eb, "--endpoint-url", "u", "--json", "ls") == ERR_OK &&
          count == 3);
    CHECK(LEAD(&count, &eb, "--endpoint=u", "ls") == ERR_OK && count == 1);
    CHECK(LEAD(&count, &eb, "--json") == ERR_OK && count == 1);
    CHECK(LEAD(&count, &eb, "--endpoint-url") == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "\"--endpoint-url\" wants a value");
    CHECK(LEAD(&count, &eb, "--recursive", "cp") == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "\"--recursive\" stands before the verb");
    CHECK(LEAD(&count, &eb, "-r", "cp") == ERR_BAD_REQUEST);
}

static void
test_too_many_flags(void)
{
    char *argv[FLAGS_GIVEN_MAX + 1];
    struct errbuf eb = {0};
    struct args a;

    for (size_t i = 0; i < ARRAY_LEN(argv); i++)
        argv[i] = "--set=a=1";
    CHECK(flags_parse(&ls, 0, argv, &a, &eb) == ERR_OK);
    args_fini(&a);
    CHECK(flags_parse(&cp, FLAGS_GIVEN_MAX + 1, argv, &a, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "more than 256 flags");
}

static void
test_help_wins(void)
{
    struct errbuf eb = {0};
    struct args a;

    CHECK(PARSE(&cp, &a, &eb, "--zebra", "--help") == ERR_OK && a.help);
    args_fini(&a);
    CHECK(PARSE(&cp, &a, &eb, "-h") == ERR_OK && a.help);
    args_fini(&a);
    CHECK(PARSE(&cp, &a, &eb, "a", "b", "--", "--help") == ERR_OK && !a.help &&
          a.count == 3);
    args_fini(&a);
}

static void
test_help_page(void)
{
    struct buf b;

    buf_init(&b, 1 << 16);
    flags_help(&cp, "forebay", &b);
    buf_putc(&b, '\0');
    CHECK_STR(b.at, "copies objects and files\n"
                    "\n"
                    "  $ forebay cp a s3://b/c\n"
                    "\n"
                    "Usage: forebay cp [FLAGS] SOURCE... DEST\n"
                    "\n"
                    "Flags:\n"
                    "  -r, --recursive         all below\n"
                    "  -f, --force             ask nothing\n"
                    "  -j, --jobs N            at once\n"
                    "      --set NAME=VALUE    an option (may be repeated)\n"
                    "\n"
                    "Flags of all verbs:\n"
                    "      --endpoint-url URL  the server\n"
                    "      --json              short for -o json\n"
                    "  -h, --help              this page\n");
    buf_clear(&b);
    flags_help(&version, "forebay", &b);
    buf_putc(&b, '\0');
    CHECK_STR(b.at,
              "says which\n\nUsage: forebay version [FLAGS]\n\nFlags of all verbs:\n"
              "  -h, --help  this page\n");
    buf_clear(&b);
    flags_overview(verbs, &b);
    buf_putc(&b, '\0');
    CHECK_STR(
        b.at,
        "  cp       copies objects and files\n  ls       lists\n  version  says which\n");
    buf_fini(&b);
}

static void
test_verbs(void)
{
    struct errbuf eb = {0};

    CHECK(flags_verb(verbs, "ls", &eb) == &ls);
    CHECK(flags_verb(verbs, "verison", &eb) == NULL);
    CHECK_STR(eb.text, "there is no verb \"verison\": did you mean \"version\"?");
    CHECK(flags_verb(verbs, "frobnicate", &eb) == NULL);
    CHECK_STR(eb.text, "there is no verb \"frobnicate\"; see --help");
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_forms);
    RUN(test_mistakes);
    RUN(test_flags_before_the_verb);
    RUN(test_too_many_flags);
    RUN(test_help_wins);
    RUN(test_help_page);
    RUN(test_verbs);
    return check_done();
}
