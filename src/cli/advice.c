#include "cli/advice.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

/* The numbers stay what they are: people search for them. */
static const struct advice {
    enum err err;
    const char *code, *means, *next;
} table[] = {
    {ERR_BAD_REQUEST, "E1001", "what was asked for is malformed",
     "see --help of the verb for what it takes"},
    {ERR_RANGE, "E1002", "the range lies outside of the object",
     "look at its size: forebay stat"},
    {ERR_NOT_FOUND, "E1003", "there is nothing of that name",
     "at a server: forebay ls (of jobs: jobs --all) shows what there is; names tell "
     "upper from lower case"},
    {ERR_NO_BUCKET, "E1004", "there is no such bucket",
     "forebay ls shows the buckets, forebay mb makes one"},
    {ERR_NO_UPLOAD, "E1005", "the upload in parts is not there any more",
     "give the command with --restart"},
    {ERR_DENIED, "E1101", "the keys, or the file system, do not allow it",
     "at a server: forebay env --origin says which keys are used, --profile chooses "
     "others; here: ls -l says who may"},
    {ERR_QUOTA, "E1102", "the bucket's quota is used up",
     "delete something, or: forebay bucket set BUCKET --quota-bytes SIZE"},
    {ERR_NOT_ALLOWED, "E1103", "the server does not do that to this", "see docs/s3.md"},
    {ERR_EXISTS, "E1201", "the name is taken",
     "choose another one, or remove what is there"},
    {ERR_NOT_EMPTY, "E1202", "the bucket is not empty",
     "forebay rb --force deletes its objects too"},
    {ERR_PRECONDITION, "E1203", "the object changed meanwhile",
     "look at it again, then give the command again"},
    {ERR_NOT_MODIFIED, "E1204", "the object did not change", "there is nothing to do"},
    {ERR_TOO_LARGE, "E1205", "it is larger than may be", "the sentence names the limit"},
    {ERR_NO_SPACE, "E1206", "there is no space left",
     "make room, then give the command again: what was begun goes on"},
    {ERR_TIMEOUT, "E1301", "no answer in time",
     "the server or the network is slow: try again, with a smaller --parallel"},
    {ERR_CLOSED, "E1302", "no connection, or it was lost",
     "is the server running, and is --endpoint-url right?"},
    {ERR_BUSY, "E1303", "the server is too busy",
     "try again later, with a smaller --parallel"},
    {ERR_UNAVAILABLE, "E1304", "the server cannot do it now", "try again later"},
    {ERR_BACKEND, "E1305", "the server's answer makes no sense, or it failed",
     "try again; if it stays so, look into the server's log"},
    {ERR_IO, "E1306", "a disk failed", "look into the system's log"},
    {ERR_CANCELLED, "E1307", "it was interrupted", "give the command again"},
    {ERR_BAD_DIGEST, "E1401", "the bytes that arrived are not those that were sent",
     "try again; if it stays so, something between here and the server changes bytes"},
    {ERR_CORRUPT, "E1402", "what is stored is damaged",
     "forebay disk check DIR, docs/recovery.md"},
    {ERR_INCOMPLETE, "E1403", "the bytes end before they should, or changed meanwhile",
     "give the command again"},
    {ERR_NOT_IMPLEMENTED, "E1501", "the server does not have this function",
     "docs/s3.md lists what there is"},
    {ERR_INTERNAL, "E1502", "a bug", "please report it, with the sentence"},
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
