#include "cli/advice.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "wire/json.h"

/* The numbers stay what they are: people search for them. */
static const struct advice {
    enum err err;
    const char *code, *means, *next;
} table[] = {
    {ERR_BAD_REQUEST, "E1001", "the request is malformed",
     "see --help of the verb for what it takes"},
    {ERR_RANGE, "E1002", "the range is outside the object",
     "look at its size: forebay stat"},
    {ERR_NOT_FOUND, "E1003", "nothing has that name",
     "forebay ls lists objects, forebay jobs --all lists jobs; names "
     "are case-sensitive"},
    {ERR_NO_BUCKET, "E1004", "there is no such bucket",
     "forebay ls shows the buckets, forebay mb makes one"},
    {ERR_NO_UPLOAD, "E1005", "the multipart upload no longer exists",
     "give the command with --restart"},
    {ERR_DENIED, "E1101", "the keys, or the file system, do not allow it",
     "forebay env --origin says which keys are used, --profile chooses others; of a "
     "file: "
     "ls -l says who may"},
    {ERR_QUOTA, "E1102", "the bucket's quota is used up",
     "delete something, or: forebay bucket set BUCKET --quota-bytes SIZE"},
    {ERR_NOT_ALLOWED, "E1103", "the server does not support that operation here",
     "see docs/s3.md"},
    {ERR_EXISTS, "E1201", "the name is taken",
     "give another name, or remove what is there"},
    {ERR_NOT_EMPTY, "E1202", "the bucket is not empty",
     "forebay rb --force deletes its objects too"},
    {ERR_PRECONDITION, "E1203", "the object changed meanwhile",
     "check the object, then repeat the command"},
    {ERR_NOT_MODIFIED, "E1204", "the object did not change", "nothing to do"},
    {ERR_TOO_LARGE, "E1205", "it exceeds a size limit", "the message names the limit"},
    {ERR_NO_SPACE, "E1206", "there is no space left",
     "free space, then repeat the command: it resumes"},
    {ERR_TIMEOUT, "E1301", "no response in time",
     "the server or the network is slow: retry with a smaller --parallel"},
    {ERR_CLOSED, "E1302", "no connection, or the connection was lost",
     "is the server running, and is --endpoint-url right?"},
    {ERR_BUSY, "E1303", "the server is too busy",
     "retry later, with a smaller --parallel"},
    {ERR_UNAVAILABLE, "E1304", "the server cannot do that now", "try again later"},
    {ERR_BACKEND, "E1305", "the server's response is invalid, or the server failed",
     "retry; if the error persists, read the server's log"},
    {ERR_IO, "E1306", "a disk failed", "read the system log"},
    {ERR_CANCELLED, "E1307", "it was interrupted", "repeat the command"},
    {ERR_BAD_DIGEST, "E1401", "the received bytes differ from the bytes that were sent",
     "retry; if the error persists, something on the path to the server "
     "corrupts data"},
    {ERR_CORRUPT, "E1402", "the stored data is damaged",
     "forebay stat -v says on which disk it is; forebay disk check DIR, with the server "
     "stopped, repairs what can be; else put it back from its source: docs/recovery.md"},
    {ERR_INCOMPLETE, "E1403", "the data ended early or changed meanwhile",
     "repeat the command"},
    {ERR_NOT_IMPLEMENTED, "E1501", "the server does not have this function",
     "docs/s3.md lists the supported operations"},
    {ERR_INTERNAL, "E1502", "a bug", "please report it with this message"},
};

static const struct advice *
advice_find(enum err rc)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (table[i].err == rc)
            return &table[i];
    return NULL;
}

static void
hint_of_keys(const struct advice_of *of, struct buf *out)
{
    if (of->key == NULL)
        buf_printf(out, "the request had no keys: --profile, FOREBAY_ACCESS_KEY_ID, or "
                        "eval \"$(forebay env)\" for a server of this machine");
    else
        buf_printf(out,
                   "the request was signed with key %s (%s): forebay env --origin; "
                   "another one by --profile; for a server on loopback that needs none: "
                   "eval \"$(forebay env)\", or --no-sign",
                   of->key, of->keys_how);
}

/* Hints that depend on the sentence, the command or the server; false: the table's is good. */
static bool
hint_of_words(enum err rc, const char *text, const struct advice_of *of, struct buf *out)
{
    if (strstr(text, "InvalidAccessKeyId") != NULL ||
        strstr(text, "SignatureDoesNotMatch") != NULL ||
        (of->key == NULL && of->endpoint != NULL &&
         strstr(text, "AccessDenied") != NULL)) {
        hint_of_keys(of, out);
    } else if (strstr(text, "certificate") != NULL && rc != ERR_BAD_REQUEST) {
        buf_puts(out, "a certificate that no authority of this system signed is trusted "
                      "by --ca-bundle FILE; it must name the host of the URL");
    } else if ((rc == ERR_BUSY || rc == ERR_UNAVAILABLE) &&
               strstr(text, "ServiceUnavailable") != NULL) {
        buf_puts(out, strstr(text, "the backend") != NULL
                          ? "the remote of the bucket does not respond: forebay doctor "
                            "looks at it; cached objects are served meanwhile"
                          : "the server cannot do that now: forebay doctor says why");
    } else if (rc == ERR_NOT_FOUND && strncmp(of->verb, "user", 4) == 0) {
        buf_puts(out, "forebay user ls lists the users");
    } else if (rc == ERR_NOT_FOUND && strncmp(of->verb, "disk", 4) == 0) {
        buf_puts(out, "forebay disk ls lists the disks");
    } else if (rc == ERR_NOT_FOUND && strstr(text, "no job") != NULL) {
        buf_puts(out, "forebay jobs --all lists the jobs");
    } else if (rc == ERR_NOT_FOUND && (strstr(text, "no folder") != NULL ||
                                       strstr(text, "No such file") != NULL)) {
        buf_puts(out, "check the path: it is one of this machine");
    } else if (rc == ERR_NOT_FOUND) {
        buf_puts(out, "forebay ls lists objects; names are case-sensitive");
    } else {
        return false;
    }
    return true;
}

static const char *
after_scheme(const char *url)
{
    const char *at = url != NULL ? strstr(url, "://") : NULL;

    return at != NULL ? at + 3 : NULL;
}

/* Of two servers the sentence names the one that did not answer, nearly always. */
static void
hint_of_closed(const char *text, const struct advice_of *of, struct buf *out)
{
    const char *to = after_scheme(of->to_endpoint);
    bool is_to = to != NULL && strcmp(of->to_endpoint, of->endpoint) != 0 &&
                 strstr(text, to) != NULL;
    const char *which = is_to ? of->to_endpoint : of->endpoint;

    buf_printf(out, "is a server running at %s%s? --%sendpoint-url names another", which,
               strncmp(which, "http://", 7) == 0 ? ", without TLS" : ", with TLS",
               is_to ? "to-" : "");
}

const char *
advice_hint(enum err rc, const char *text, const struct advice_of *of, struct buf *out)
{
    const struct advice *a = advice_find(rc);

    buf_clear(out);
    if (a == NULL || rc == ERR_CANCELLED)
        return "";
    if (rc == ERR_CLOSED && of->endpoint != NULL && strstr(text, "certificate") == NULL)
        hint_of_closed(text, of, out);
    else if (!hint_of_words(rc, text, of, out))
        buf_puts(out, a->next);
    return a->code;
}

static struct advice_of
advice_of_session(const struct session *s)
{
    return s == NULL ? (struct advice_of){.verb = ""}
                     : (struct advice_of){.endpoint = s->endpoint,
                                          .to_endpoint = s->to_endpoint,
                                          .key = s->key,
                                          .keys_how = s->keys_how,
                                          .verb = s->args->verb->name};
}

/* A sentence begins with a capital letter, a command does not. */
static char
first_letter(struct span hint)
{
    return span_starts(hint, SPAN("forebay ")) || hint.at[0] < 'a' || hint.at[0] > 'z'
               ? hint.at[0]
               : (char)(hint.at[0] & ~0x20);
}

void
advice_print(enum err rc, const char *text, const struct session *s)
{
    struct advice_of of = advice_of_session(s);
    struct buf hint;
    const char *code;

    if (s != NULL && s->quiet)
        return;
    buf_init(&hint, KIB(4));
    code = advice_hint(rc, text, &of, &hint);
    if (hint.len > 0)
        fprintf(stderr, "  %c%.*s%s (FOREBAY-%s)\n", first_letter(buf_span(&hint)),
                (int)hint.len - 1, hint.at + 1,
                hint.at[hint.len - 1] == '?' || hint.at[hint.len - 1] == '.' ? "" : ".",
                code);
    buf_fini(&hint);
}

static void
advice_put_json(enum err rc, const char *text, const char *what, const struct session *s)
{
    struct advice_of of = advice_of_session(s);
    struct buf hint, out;
    struct json j;
    const char *code;

    buf_init(&hint, KIB(4));
    buf_init(&out, KIB(16));
    code = advice_hint(rc, text, &of, &hint);
    json_begin(&j, &out);
    json_open_object(&j, NULL);
    json_open_object(&j, "error");
    json_text(&j, "code", code);
    if (what != NULL)
        json_text(&j, "name", what);
    json_text(&j, "message", text);
    json_span(&j, "hint", buf_span(&hint));
    json_u64(&j, "exit", (uint64_t)cli_exit_of(rc));
    json_end(&j);
    json_end(&j);
    fprintf(stderr, "%.*s\n", SPAN_ARG(buf_span(&out)));
    buf_fini(&hint);
    buf_fini(&out);
}

enum exit_code
advice_fail(enum err rc, const struct errbuf *eb, const char *what,
            const struct session *s)
{
    const char *text = eb->text[0] != '\0' ? eb->text : err_name(rc);

    if (cli_errors_are_json()) {
        advice_put_json(rc, text, what, s);
        return cli_exit_of(rc);
    }
    cli_say(what, text);
    if (what == NULL)
        advice_print(rc, text, s);
    return cli_exit_of(rc);
}

static void
advice_put(const struct advice *a, struct buf *out)
{
    buf_printf(out, "FOREBAY-%s  %s\n  next  %s\n  exit  %d\n", a->code, a->means,
               a->next, (int)cli_exit_of(a->err));
}

bool
advice_explain(struct span word, struct buf *out)
{
    if (span_starts(word, SPAN("FOREBAY-")))
        word = span_from(word, 8);
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        if (span_case_is(word, table[i].code)) {
            advice_put(&table[i], out);
            return true;
        }
    return false;
}

void
advice_list(struct buf *out)
{
    for (size_t i = 0; i < ARRAY_LEN(table); i++)
        buf_printf(out, "%s  %s\n", table[i].code, table[i].means);
}
