#include "cli/advice.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

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
     "at a server: forebay env --origin says which keys are used, --profile chooses "
     "others; here: ls -l says who may"},
    {ERR_QUOTA, "E1102", "the bucket's quota is used up",
     "delete something, or: forebay bucket set BUCKET --quota-bytes SIZE"},
    {ERR_NOT_ALLOWED, "E1103", "the server does not support that operation here",
     "see docs/s3.md"},
    {ERR_EXISTS, "E1201", "the name is taken",
     "choose another one, or remove what is there"},
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
     "retry later with a smaller --parallel"},
    {ERR_UNAVAILABLE, "E1304", "the server cannot do that now", "try again later"},
    {ERR_BACKEND, "E1305", "the server's response is invalid, or the server failed",
     "retry; if the error persists, read the server's log"},
    {ERR_IO, "E1306", "a disk failed", "read the system log"},
    {ERR_CANCELLED, "E1307", "it was interrupted", "repeat the command"},
    {ERR_BAD_DIGEST, "E1401", "the received bytes differ from the bytes that were sent",
     "retry; if the error persists, something on the path to the server "
     "corrupts data"},
    {ERR_CORRUPT, "E1402", "the stored data is damaged",
     "forebay disk check DIR, docs/recovery.md"},
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

void
advice_print(enum err rc, const struct session *s)
{
    const struct advice *a = advice_find(rc);

    if (a == NULL || rc == ERR_CANCELLED || (s != NULL && s->quiet))
        return;
    if (rc == ERR_CLOSED && s != NULL)
        fprintf(stderr,
                "  Is a server running at %s%s? --endpoint-url names another. "
                "(FOREBAY-%s)\n",
                s->endpoint,
                strncmp(s->endpoint, "http://", 7) == 0 ? ", without TLS" : ", with TLS",
                a->code);
    else
        fprintf(stderr, "  %c%s. (FOREBAY-%s)\n",
                strncmp(a->next, "forebay ", 8) == 0 ? 'f' : a->next[0] & ~0x20,
                a->next + 1, a->code);
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
