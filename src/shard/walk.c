/* walk: members of any archive; see walk.h. */
#include "shard/walk.h"

#include <assert.h>
#include <stdlib.h>

#include "base/mem.h"
#include "shard/internal.h"

struct shard_walk {
    struct shard_input *in;      /* borrowed */
    struct shard_stream *stream; /* owned; NULL: a zip */
    struct shard_index *index;   /* of a zip: one reference */
    uint32_t next;
    struct shard_extract extract;
    bool extracting;
};

enum err
shard_walk_open(struct shard_input *in, enum shard_format f, struct shard_walk **out,
                struct errbuf *eb)
{
    struct shard_walk *w = xcalloc(1, sizeof *w);
    enum err rc;

    assert(f != SHARD_NONE);
    w->in = in;
    rc = f == SHARD_ZIP ? shard_index_build(in, f, &w->index, eb)
                        : shard_stream_open(in, f, &w->stream, eb);
    if (rc != ERR_OK)
        shard_walk_close(&w);
    *out = w;
    return rc;
}

static void
walk_end_extract(struct shard_walk *w)
{
    if (w->extracting)
        extract_end(&w->extract);
    w->extracting = false;
}

enum err
shard_walk_next(struct shard_walk *w, struct shard_member *m, bool *end,
                struct errbuf *eb)
{
    const struct shard_entry *e;

    if (w->stream != NULL)
        return shard_stream_next(w->stream, m, end, eb);
    walk_end_extract(w);
    *end = w->next == w->index->count;
    if (*end)
        return ERR_OK;
    e = &w->index->entries[w->next++];
    *m = (struct shard_member){.name = shard_entry_name(w->index, e),
                               .size = e->size,
                               .offset = e->offset,
                               .mtime_s = e->mtime_s};
    return ERR_OK;
}

enum err
shard_walk_data(struct shard_walk *w, struct span *piece, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    *piece = (struct span){"", 0};
    if (w->stream != NULL)
        return shard_stream_data(w->stream, piece, eb);
    assert(w->next > 0);
    if (!w->extracting) {
        const struct shard_entry *e = &w->index->entries[w->next - 1];

        w->extracting = true;
        rc = extract_begin(&w->extract, w->in, w->index, e, 0, e->size, eb);
    }
    return rc == ERR_OK ? extract_next(&w->extract, piece, eb) : rc;
}

void
shard_walk_close(struct shard_walk **wp)
{
    struct shard_walk *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    walk_end_extract(w);
    shard_stream_close(&w->stream);
    shard_index_drop(&w->index);
    free(w);
}
