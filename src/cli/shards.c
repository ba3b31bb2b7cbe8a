#include "cli/shards.h"

#include <string.h>

#include "base/mem.h"

#define JOINS     "::"
#define PIPE      "pipe:"
#define WORD_ENDS " \t\"'|;&<>()"

static bool
is_web(struct span url)
{
    return span_starts(url, SPAN("http://")) || span_starts(url, SPAN("https://"));
}

static bool
is_name(struct span url)
{
    return span_starts(url, SPAN("s3://")) || span_starts(url, SPAN("forebay://"));
}

bool
shards_are(const char *text)
{
    struct span all = span_of(text);

    return strstr(text, JOINS) != NULL || span_starts(all, SPAN(PIPE)) || is_web(all);
}

/* The word of a command that names an object: an s3:// name before a web address, which may be an option's. */
static bool
find_word(struct span command, struct span *out)
{
    bool found = false;

    for (size_t at = 0; at < command.len;) {
        struct span word = span_from(command, at);

        word.len = 0;
        while (at + word.len < command.len &&
               strchr(WORD_ENDS, command.at[at + word.len]) == NULL)
            word.len++;
        at += word.len + 1;
        if (is_name(word)) {
            *out = word;
            return true;
        }
        if (is_web(word)) {
            *out = word;
            found = true;
        }
    }
    return found;
}

/* What stands behind the server's name, "/BUCKET/KEY". */
static enum err
path_of(struct span url, const char *endpoint, struct span *out, struct errbuf *eb)
{
    struct span server = span_of(endpoint);

    while (server.len > 0 && server.at[server.len - 1] == '/')
        server.len--;
    if (!span_starts(url, server) || url.len <= server.len || url.at[server.len] != '/')
        return err_set(
            eb, ERR_BAD_REQUEST,
            "\"%.*s\" is not at %.*s: name another --endpoint-url, or the shards "
            "as s3://BUCKET/KEY",
            SPAN_ARG(url), SPAN_ARG(server));
    *out = span_from(url, server.len + 1);
    return ERR_OK;
}

/* One URL; the bucket and the key lie in it. */
static enum err
split(struct span url, const char *endpoint, struct span *bucket, struct span *key,
      struct errbuf *eb)
{
    struct span word = url, path;
    const char *slash;
    enum err rc = ERR_OK;

    if (span_starts(url, SPAN(PIPE)) && !find_word(span_from(url, strlen(PIPE)), &word))
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"%.*s\": no s3://BUCKET/KEY stands in this command",
                       SPAN_ARG(url));
    if (is_web(word))
        rc = path_of(word, endpoint, &path, eb);
    else if (is_name(word))
        path = span_from(word, word.at[0] == 's' ? 5 : 10);
    else
        return err_set(eb, ERR_BAD_REQUEST, "\"%.*s\": expected s3://BUCKET/KEY",
                       SPAN_ARG(url));
    if (rc != ERR_OK)
        return rc;
    slash = memchr(path.at, '/', path.len);
    *bucket =
        (struct span){path.at, slash != NULL ? (size_t)(slash - path.at) : path.len};
    *key = span_from(path, MIN(bucket->len + 1, path.len));
    return bucket->len > 0 && key->len > 0
               ? ERR_OK
               : err_set(eb, ERR_BAD_REQUEST, "\"%.*s\" names no object", SPAN_ARG(url));
}

enum err
shards_read(const char *text, const char *endpoint, struct place *out, struct buf *names,
            struct errbuf *eb)
{
    *out = (struct place){.remote = true, .text = text, .key = {"", 0}};
    for (const char *at = text; at != NULL;) {
        const char *end = strstr(at, JOINS);
        struct span url = {at, end != NULL ? (size_t)(end - at) : strlen(at)}, bucket,
                    key;
        enum err rc = split(url, endpoint, &bucket, &key, eb);

        if (rc != ERR_OK)
            return rc;
        if (out->bucket.len > 0 && !span_eq(out->bucket, bucket))
            return err_set(eb, ERR_BAD_REQUEST,
                           "\"%.*s\" is of another bucket than s3://%.*s: a job has one",
                           SPAN_ARG(url), SPAN_ARG(out->bucket));
        out->bucket = bucket;
        buf_put_span(names, key);
        buf_put(names, "\n", 1);
        at = end != NULL ? end + strlen(JOINS) : NULL;
    }
    return names->full ? err_set(eb, ERR_TOO_LARGE,
                                 "the names are too long: --from-file takes more")
                       : ERR_OK;
}
