#include "cli/note.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/files.h"

#define MAGIC "forebay-note 1\n"

char *
note_path(const char *kind, const char *const *parts)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    unsigned char sum[DIGEST_MAX];
    char hex[2 * 16 + 1];
    struct digest d;

    if (state != NULL && state[0] != '/')
        state = NULL;
    if (state == NULL && (home == NULL || home[0] != '/'))
        return NULL;
    digest_init(&d, DIGEST_SHA256);
    for (; *parts != NULL; parts++)
        digest_add(&d, *parts, strlen(*parts) + 1);
    digest_end(&d, sum);
    hex_encode(sum, 16, hex);
    return xasprintf("%s%s/forebay/%s-%s", state != NULL ? state : home,
                     state != NULL ? "" : "/.local/state", kind, hex);
}

/* "name value\n", and nothing else. */
static bool
note_take_line(struct span *text, const char *name, struct span *value)
{
    const char *end = span_find(*text, '\n');
    size_t len = strlen(name);

    if (end == NULL || text->len < len + 1 || memcmp(text->at, name, len) != 0 ||
        text->at[len] != ' ')
        return false;
    *value = (struct span){text->at + len + 1, (size_t)(end - text->at) - len - 1};
    *text = span_from(*text, (size_t)(end - text->at) + 1);
    return true;
}

bool
note_parse(struct span text, struct note *out)
{
    struct span v;
    uint64_t mtime;

    *out = (struct note){0};
    if (!span_starts(text, span_of(MAGIC)))
        return false;
    text = span_from(text, strlen(MAGIC));
    if (!note_take_line(&text, "size", &v) || num_u64(v, &out->size) != ERR_OK ||
        !note_take_line(&text, "mtime", &v) || num_u64(v, &mtime) != ERR_OK ||
        mtime > INT64_MAX || !note_take_line(&text, "part", &v) ||
        num_u64(v, &out->part_bytes) != ERR_OK || out->part_bytes == 0 ||
        (out->size + out->part_bytes - 1) / out->part_bytes > 10000 ||
        !note_take_line(&text, "id", &v) || v.len == 0 || v.len >= sizeof out->id ||
        memchr(v.at, '\0', v.len) != NULL)
        return false;
    out->mtime_ns = (int64_t)mtime;
    memcpy(out->id, v.at, v.len);
    if (!note_take_line(&text, "have", &v) || text.len != 0)
        return false;
    return v.len == 2 * sizeof out->have &&
           hex_decode(v.at, v.len, out->have, sizeof out->have) >= 0;
}

bool
note_load(const char *path, struct note *out)
{
    struct files_file file;
    struct errbuf eb = {{0}};
    bool good;

    if (path == NULL || files_open(path, &file, &eb) != ERR_OK)
        return false;
    good = file.bytes != NULL && note_parse((struct span){file.bytes, file.size}, out);
    files_close(&file);
    return good;
}

void
note_save(const char *path, const struct note *n)
{
    struct files_target target = {path, path != NULL ? strlen(path) : 0};
    char have[2 * sizeof n->have + 1];
    struct errbuf eb = {{0}};
    struct buf text;

    if (path == NULL)
        return;
    hex_encode(n->have, sizeof n->have, have);
    buf_init(&text, KIB(16));
    buf_printf(&text,
               MAGIC "size %" PRIu64 "\nmtime %" PRId64 "\npart %" PRIu64
                     "\nid %s\nhave %s\n",
               n->size, n->mtime_ns > 0 ? n->mtime_ns : 0, n->part_bytes, n->id, have);
    if (!text.full)
        (void)!files_store(&target, text.at, text.len, 0,
                           &eb); /* then it starts from the beginning */
    buf_fini(&text);
}

void
note_drop(const char *path)
{
    struct errbuf eb = {{0}};

    if (path != NULL)
        (void)!files_remove(path, &eb);
}
