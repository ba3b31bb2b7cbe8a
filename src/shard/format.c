/* format: the archive formats of shards; see format.h. */
#include "shard/format.h"

#include <assert.h>

#include "base/mem.h"

/* The longest extension of a format first: the first row of a format is how it is named. */
static const struct {
    const char *extension, *media;
    enum shard_format format;
} formats[] = {
    {".tar", "application/x-tar", SHARD_TAR},
    {".tgz", "application/gzip", SHARD_TGZ},
    {".tar.gz", "application/x-gtar-compressed", SHARD_TGZ},
    {".tar.lz4", "application/x-lz4", SHARD_TAR_LZ4},
    {".zip", "application/zip", SHARD_ZIP},
};

enum shard_format
shard_format_of_name(struct span name)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++) {
        struct span ext = span_of(formats[i].extension);

        if (name.len > ext.len && span_eq(span_from(name, name.len - ext.len), ext))
            return formats[i].format;
    }
    return SHARD_NONE;
}

enum shard_format
shard_format_of_mime(struct span mime)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (span_case_is(mime, formats[i].extension) ||
            span_case_is(mime, formats[i].extension + 1) ||
            span_case_is(mime, formats[i].media))
            return formats[i].format;
    if (span_case_is(mime, "application/tar"))
        return SHARD_TAR;
    if (span_case_is(mime, "application/x-gzip") ||
        span_case_is(mime, "application/x-tgz"))
        return SHARD_TGZ;
    return SHARD_NONE;
}

const char *
shard_format_extension(enum shard_format f)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (formats[i].format == f)
            return formats[i].extension;
    return "";
}

const char *
shard_format_media(enum shard_format f)
{
    for (size_t i = 0; i < ARRAY_LEN(formats); i++)
        if (formats[i].format == f)
            return formats[i].media;
    return "application/octet-stream";
}

bool
shard_path_split(struct span path, struct span *key, struct span *member)
{
    size_t from = 0;

    for (;;) {
        struct span rest = span_from(path, from);
        const char *slash = span_find(rest, '/');
        struct span head;

        if (slash == NULL)
            return false;
        head = (struct span){path.at, (size_t)(slash - path.at)};
        assert(head.len < path.len);
        /* The component alone: "/.tar/x" has no name before its extension. */
        if (shard_format_of_name(span_from(head, from)) != SHARD_NONE &&
            head.len + 1 < path.len) {
            *key = head;
            *member = span_from(path, head.len + 1);
            return true;
        }
        from = head.len + 1;
    }
}

struct span
shard_sample_key(struct span name)
{
    size_t base = 0;
    const char *dot;

    for (size_t i = 0; i < name.len; i++)
        if (name.at[i] == '/')
            base = i + 1;
    dot = span_find(span_from(name, base), '.');
    return dot == NULL ? name : (struct span){name.at, (size_t)(dot - name.at)};
}
