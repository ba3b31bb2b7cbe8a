/* A whole tar archive at any split; see tar.h. */
#include <assert.h>
#include <inttypes.h>

#include "base/mem.h"
#include "wire/tar.h"

enum state { HEAD, PAYLOAD, FILL, SECOND_ZERO, OVER, BROKEN };

void
tar_reader_init(struct tar_reader *r)
{
    *r = (struct tar_reader){.state = HEAD};
    buf_init(&r->gathered, TAR_HEAD_MAX);
}

void
tar_reader_fini(struct tar_reader *r)
{
    buf_fini(&r->gathered);
}

static struct span
tar_stream_consume(struct span *in, uint64_t most)
{
    struct span s = {in->at, (size_t)MIN((uint64_t)in->len, most)};

    *in = span_from(*in, s.len);
    return s;
}

/* Gathers until there are `want` bytes; false when the input was too short. */
static bool
tar_stream_gather(struct tar_reader *r, struct span *in, size_t want)
{
    if (r->gathered.len < want)
        buf_put_span(&r->gathered, tar_stream_consume(in, want - r->gathered.len));
    return r->gathered.len >= want;
}

static enum tar_event
tar_stream_broken(struct tar_reader *r)
{
    r->state = BROKEN;
    return TAR_BAD;
}

/* One block of zeros came: a second one ends the archive. */
static enum tar_event
second_zero(struct tar_reader *r, struct span *in, struct errbuf *eb)
{
    if (!tar_stream_gather(r, in, TAR_BLOCK))
        return TAR_MORE;
    if (tar_head_read(buf_span(&r->gathered), &r->head, eb) != TAR_GOT_ZERO) {
        err_set(eb, ERR_BAD_REQUEST, "tar: one block of zeros between members");
        return tar_stream_broken(r);
    }
    r->state = OVER;
    return TAR_END;
}

static enum tar_event
tar_stream_head(struct tar_reader *r, struct span *in, struct errbuf *eb)
{
    size_t want = TAR_BLOCK;

    for (;;) {
        if (!tar_stream_gather(r, in, want))
            return TAR_MORE;
        switch (tar_head_read(buf_span(&r->gathered), &r->head, eb)) {
        case TAR_GOT_MORE:
            want = r->head.need;
            break;
        case TAR_GOT_HEAD:
            assert(r->gathered.len == r->head.head_len);
            r->data_left = r->head.size;
            r->skip_left = tar_padding(r->head.size);
            r->state = PAYLOAD;
            return TAR_MEMBER;
        case TAR_GOT_ZERO:
            buf_clear(&r->gathered);
            r->state = SECOND_ZERO;
            return second_zero(r, in, eb);
        case TAR_GOT_BAD:
            return tar_stream_broken(r);
        }
    }
}

enum tar_event
tar_reader_next(struct tar_reader *r, struct span *in, struct span *data,
                struct errbuf *eb)
{
    switch (r->state) {
    case PAYLOAD:
        if (r->data_left > 0) {
            if (in->len == 0)
                return TAR_MORE;
            *data = tar_stream_consume(in, r->data_left);
            assert(data->len <= r->data_left);
            r->data_left -= data->len;
            return TAR_DATA;
        }
        r->state = FILL;
        /* fall through */
    case FILL:
        r->skip_left -= tar_stream_consume(in, r->skip_left).len;
        if (r->skip_left > 0)
            return TAR_MORE;
        assert(r->data_left == 0);
        buf_clear(&r->gathered);
        r->state = HEAD;
        /* fall through */
    case HEAD:
        return tar_stream_head(r, in, eb);
    case SECOND_ZERO:
        return second_zero(r, in, eb);
    case OVER:
        return TAR_END;
    default:
        return TAR_BAD;
    }
}

enum err
tar_reader_finish(const struct tar_reader *r, struct errbuf *eb)
{
    bool between = r->state == HEAD && r->gathered.len == 0;
    bool filled = (r->state == PAYLOAD || r->state == FILL) && r->data_left == 0 &&
                  r->skip_left == 0;

    if (between || filled || r->state == OVER || r->state == SECOND_ZERO)
        return ERR_OK;
    return err_set(eb, ERR_INCOMPLETE, "tar: ends inside a member");
}
