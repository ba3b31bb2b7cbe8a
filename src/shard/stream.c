/* stream: the members of an archive in one pass; see stream.h. */
#include "shard/stream.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rt/fiber.h"
#include "shard/decode.h"
#include "wire/tar.h"

/* A payload of which more than this would be read to skip it is jumped over: a lookup and a read cost less. */
#define JUMP_MIN KIB(512)

struct shard_stream {
    struct shard_input *in;        /* borrowed */
    struct shard_decoder *decoder; /* NULL: an uncompressed tar */
    struct tar_reader tar;
    struct span raw;   /* from the input, not decoded yet */
    struct span plain; /* decoded, not parsed yet */
    uint64_t at;       /* of `plain` in the tar */
    bool input_ended, begun;
    uint64_t left; /* of the member's payload; not read yet */
    char name[200];
    int name_len;
};

enum err
shard_stream_open(struct shard_input *in, enum shard_format f, struct shard_stream **out,
                  struct errbuf *eb)
{
    struct shard_stream *s = xcalloc(1, sizeof *s);
    enum err rc = ERR_OK;

    assert(f == SHARD_TAR || f == SHARD_TGZ || f == SHARD_TAR_LZ4);
    s->in = in;
    tar_reader_init(&s->tar);
    if (f != SHARD_TAR)
        rc = shard_decoder_new(f == SHARD_TGZ ? SHARD_GZIP : SHARD_LZ4, &s->decoder, eb);
    if (rc != ERR_OK)
        shard_stream_close(&s);
    *out = s;
    return rc;
}

void
shard_stream_close(struct shard_stream **sp)
{
    struct shard_stream *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    tar_reader_fini(&s->tar);
    shard_decoder_free(&s->decoder);
    free(s);
}

static enum err
stream_refill_raw(struct shard_stream *s, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(s->raw.len == 0);
    if (!s->begun) {
        s->begun = true;
        rc = s->in->begin(s->in, 0, s->in->size, eb);
    }
    if (rc == ERR_OK && !s->input_ended) {
        rc = s->in->next(s->in, &s->raw, eb);
        s->input_ended = rc == ERR_OK && s->raw.len == 0;
    }
    return rc;
}

/* More of the tar in `plain`; nothing: it has ended. */
static enum err
stream_refill(struct shard_stream *s, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(s->plain.len == 0);
    while (rc == ERR_OK && s->plain.len == 0 && !s->input_ended) {
        if (s->raw.len == 0)
            rc = stream_refill_raw(s, eb);
        if (rc != ERR_OK || s->raw.len == 0)
            break;
        if (s->decoder == NULL) {
            s->plain = s->raw;
            s->raw.len = 0;
        } else {
            rc = shard_decoder_next(s->decoder, &s->raw, &s->plain, eb);
            if (rt_self() != NULL && rt_others_ready())
                rt_yield();
        }
    }
    if (rc == ERR_OK && s->plain.len == 0 && s->decoder != NULL) /* what it still holds */
        rc = shard_decoder_next(s->decoder, &s->raw, &s->plain, eb);
    if (rc == ERR_OK && s->plain.len == 0 && s->decoder != NULL)
        rc = shard_decoder_finish(s->decoder, eb);
    return rc;
}

/* The tar reader's next event; *event TAR_MORE: the input has ended. */
static enum err
stream_event(struct shard_stream *s, enum tar_event *event, struct span *data,
             struct errbuf *eb)
{
    for (;;) {
        size_t before = s->plain.len;
        enum err rc;

        *event = tar_reader_next(&s->tar, &s->plain, data, eb);
        s->at += before - s->plain.len;
        if (*event == TAR_BAD)
            return ERR_BAD_REQUEST;
        if (*event != TAR_MORE)
            return ERR_OK;
        rc = stream_refill(s, eb);
        if (rc != ERR_OK || s->plain.len == 0)
            return rc;
    }
}

static enum err
stream_ends_early(const struct shard_stream *s, struct errbuf *eb)
{
    return err_set(eb, ERR_BAD_REQUEST,
                   "member \"%.*s\" is longer than the archive: %" PRIu64
                   " of its bytes are missing",
                   s->name_len, s->name, s->left);
}

/* Leaves the rest of a payload out without reading it. */
static enum err
stream_jump(struct shard_stream *s, struct errbuf *eb)
{
    uint64_t rest = s->tar.data_left + s->tar.skip_left;

    if (s->decoder != NULL || rest < s->plain.len + JUMP_MIN ||
        rest > s->in->size - s->at)
        return ERR_OK;
    s->at += rest;
    s->plain.len = 0;
    s->tar.data_left = s->tar.skip_left = 0;
    s->left = 0;
    return s->in->begin(s->in, s->at, s->in->size - s->at, eb);
}

static void
stream_take_member(struct shard_stream *s, struct shard_member *m)
{
    const struct tar_head *h = &s->tar.head;

    *m = (struct shard_member){
        .name = h->path, .size = h->size, .offset = s->at, .mtime_s = h->mtime_s};
    s->left = h->size;
    s->name_len = (int)MIN(h->path.len, sizeof s->name);
    memcpy(s->name, h->path.at, (size_t)s->name_len);
}

/* Names of tar often begin with "./". */
static struct span
stream_plain_name(struct span name)
{
    while (name.len > 2 && name.at[0] == '.' && name.at[1] == '/')
        name = span_from(name, 2);
    return name;
}

enum err
shard_stream_next(struct shard_stream *s, struct shard_member *m, bool *end,
                  struct errbuf *eb)
{
    struct span data;
    enum tar_event event;
    enum err rc;

    *end = false;
    rc = stream_jump(s, eb);
    while (rc == ERR_OK) {
        rc = stream_event(s, &event, &data, eb);
        if (rc != ERR_OK)
            break;
        if (event == TAR_MORE && s->left > 0)
            return stream_ends_early(s, eb);
        if (event == TAR_MORE)
            rc = tar_reader_finish(&s->tar, eb) == ERR_OK ? ERR_OK : ERR_BAD_REQUEST;
        *end = event == TAR_END || event == TAR_MORE;
        if (*end)
            break;
        if (event == TAR_DATA)
            s->left -= data.len;
        if (event != TAR_MEMBER)
            continue;
        stream_take_member(s, m);
        if (s->decoder == NULL && m->size > s->in->size - s->at) {
            s->left = m->size - (s->in->size - s->at);
            return stream_ends_early(s, eb);
        }
        m->name = stream_plain_name(m->name);
        if (s->tar.head.type == TAR_FILE)
            break;
    }
    return rc;
}

enum err
shard_stream_data(struct shard_stream *s, struct span *piece, struct errbuf *eb)
{
    enum tar_event event;
    enum err rc;

    *piece = (struct span){"", 0};
    if (s->left == 0)
        return ERR_OK;
    rc = stream_event(s, &event, piece, eb);
    if (rc != ERR_OK)
        return rc;
    if (event != TAR_DATA) {
        assert(event == TAR_MORE);
        return stream_ends_early(s, eb);
    }
    assert(piece->len <= s->left);
    s->left -= piece->len;
    return ERR_OK;
}
