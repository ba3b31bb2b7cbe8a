#include "store/segment/scan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "store/record/block.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/read.h"

void
wal_scan_begin(struct wal_scan *s, const struct scan_source *source, uint64_t offset,
               uint64_t batch, uint64_t epoch)
{
    *s = (struct wal_scan){
        .source = *source, .offset = offset, .batch = batch, .epoch = epoch, .wide = 1};
    s->records = s->own = xcalloc(BATCH_RECORDS, sizeof *s->own);
}

/* ---- the window ---- */

/* A piece is read into the second half of a buffer. The part of a batch in the previous piece is
 * copied in front of it, so a batch of any alignment is contiguous. */
#define SCAN_PIECE (IOBUF_MAX / 2)
static_assert(BATCH_MAX <= SCAN_PIECE, "what is left of a batch fits before a piece");

void
scan_spare_keep(struct scan_spare *s, struct iobuf **bp)
{
    struct iobuf *b = *bp;

    *bp = NULL;
    if (b != NULL && s != NULL && s->count < ARRAY_LEN(s->at) &&
        __atomic_load_n(&b->refs, __ATOMIC_ACQUIRE) == 1)
        s->at[s->count++] = b;
    else
        iobuf_drop(&b);
}

void
scan_spare_free(struct scan_spare *s)
{
    while (s->count > 0)
        iobuf_drop(&s->at[--s->count]);
}

static const char *
at_offset(const struct wal_scan *s, uint64_t offset)
{
    return s->window->at + s->window_from + (offset - s->window_at);
}

static enum err
take_buffer(struct wal_scan *s, struct iobuf **b)
{
    if (s->spare == NULL || s->spare->count == 0)
        return iobuf_get(IOBUF_MAX, b);
    *b = s->spare->at[--s->spare->count];
    return ERR_OK;
}

/* The same if buffers are scarce: moves the kept bytes of the window and reads into the window
 * itself. A scan without a window gets a buffer beyond the limit. A log must be read before
 * anything can be served or released, and nested scans cannot wait for each other. */
static enum err
take_buffer_or_window(struct wal_scan *s, uint64_t begin, uint32_t kept, struct iobuf **b)
{
    enum err rc = take_buffer(s, b);

    if (rc != ERR_BUSY)
        return rc;
    if (s->window == NULL || __atomic_load_n(&s->window->refs, __ATOMIC_ACQUIRE) > 1)
        return iobuf_get_beyond(IOBUF_MAX, b);
    if (kept > 0)
        memmove(s->window->at + SCAN_PIECE - kept, at_offset(s, begin), kept);
    *b = s->window;
    s->window = NULL;
    return ERR_OK;
}

/* Reads a piece into *b; drops *b on an error. */
static enum err
read_piece(struct wal_scan *s, uint64_t from, struct iobuf **b, uint32_t *have,
           struct errbuf *eb)
{
    enum err rc;

    *have = 0;
    rc = rt_read(s->source.file, from, *b, SCAN_PIECE, SCAN_PIECE, RT_BACKGROUND,
                 DEADLINE_NEVER, have, eb);
    if (rc != ERR_OK)
        iobuf_drop(b);
    return rc;
}

static void
scan_read_readahead(void *arg)
{
    struct scan_piece *p = arg;

    p->rc = take_buffer(p->scan, &p->buf);
    if (p->rc == ERR_OK)
        p->rc = read_piece(p->scan, p->from, &p->buf, &p->have, NULL);
}

static void
scan_stop_readahead(struct wal_scan *s)
{
    for (unsigned i = 0; i < SCAN_READAHEAD; i++) {
        struct scan_piece *p = &s->readahead[i];

        if (!p->busy)
            continue;
        rt_group_cancel(&p->batch);
        rt_group_join(&p->batch);
        iobuf_drop(&p->buf);
        p->busy = false;
    }
}

static struct scan_piece *
piece_at(struct wal_scan *s, uint64_t from)
{
    for (unsigned i = 0; i < SCAN_READAHEAD; i++) {
        if (s->readahead[i].busy && s->readahead[i].from == from)
            return &s->readahead[i];
    }
    return NULL;
}

/* Starts fibers that read ahead. If none can be started, the scan is only slower. */
static void
scan_start_readahead(struct wal_scan *s, uint64_t from)
{
    for (unsigned n = 0; n < s->wide && from < s->source.size; n++, from += SCAN_PIECE) {
        unsigned i = 0;

        if (piece_at(s, from) != NULL)
            continue;
        while (i < SCAN_READAHEAD && s->readahead[i].busy)
            i++;
        if (i == SCAN_READAHEAD)
            return;
        s->readahead[i] = (struct scan_piece){.scan = s, .from = from};
        rt_group_begin(&s->readahead[i].batch);
        s->readahead[i].busy = rt_group_start(&s->readahead[i].batch, scan_read_readahead,
                                              &s->readahead[i]) == ERR_OK;
        if (!s->readahead[i].busy)
            rt_group_join(&s->readahead[i].batch);
    }
}

/* Gets the piece after the bytes kept from `begin` on: the read-ahead piece if it matches, else
 * by reading. The window may be taken as the buffer; it is NULL then. */
static enum err
next_piece(struct wal_scan *s, uint64_t begin, uint32_t kept, struct iobuf **b,
           uint32_t *have, struct errbuf *eb)
{
    struct scan_piece *p = piece_at(s, begin + kept);
    enum err rc;

    if (p != NULL) {
        rt_group_join(&p->batch);
        p->busy = false;
        *b = p->buf;
        *have = p->have;
        p->buf = NULL;
        if (p->rc == ERR_OK)
            return ERR_OK;
    }
    scan_stop_readahead(s);
    rc = take_buffer_or_window(s, begin, kept, b);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer to read a log");
    return read_piece(s, begin + kept, b, have, eb);
}

/* Keeps the window's bytes from `begin` on and reads the next piece behind them. */
static enum err
move_window(struct wal_scan *s, uint64_t begin, struct errbuf *eb)
{
    uint64_t end = s->window_at + s->window_len;
    bool goes_on = s->window_len > 0 && begin >= s->window_at && begin <= end &&
                   end % STORE_ALIGN == 0 && end - begin <= SCAN_PIECE;
    uint32_t kept = goes_on ? (uint32_t)(end - begin) : 0;
    struct iobuf *b = NULL;
    uint32_t have;
    enum err rc = next_piece(s, begin, kept, &b, &have, eb);

    s->moves++;
    if (rc != ERR_OK) {
        s->window_len = 0;
        return rc;
    }
    if (kept > 0 && s->window != NULL)
        memcpy(b->at + SCAN_PIECE - kept, at_offset(s, begin), kept);
    scan_spare_keep(s->spare, &s->window);
    s->window = b;
    s->window_from = SCAN_PIECE - kept;
    s->window_at = begin;
    s->window_len = kept + have;
    /* A scan that begins at the start of a log, or continues, is sequential: read ahead. */
    if ((goes_on || begin <= STORE_ALIGN) && have == SCAN_PIECE)
        scan_start_readahead(s, begin + s->window_len);
    return ERR_OK;
}

/* Keeps the current batch in the window while its records are parsed. */
static uint64_t
keep_from(const struct wal_scan *s, uint64_t offset)
{
    bool in_batch = s->offset <= offset && offset - s->offset <= BATCH_MAX;

    return align_down(in_batch ? s->offset : offset, STORE_ALIGN);
}

static bool
is_inside(const struct wal_scan *s, uint64_t offset, uint64_t len)
{
    uint64_t end = s->window_at + s->window_len;

    return s->window_len > 0 && offset >= s->window_at &&
           (offset + len <= end || end >= s->source.size);
}

/* Makes the window cover [offset, offset + len); *out is shorter only at the end of the file. */
static enum err
scan_look(struct wal_scan *s, uint64_t offset, uint64_t len, struct span *out,
          struct errbuf *eb)
{
    enum err rc = ERR_OK;
    uint64_t end;

    assert(len <= SCAN_PIECE);
    if (s->within && !is_inside(s, offset, len))
        return ERR_BUSY;
    if (!is_inside(s, offset, len))
        rc = move_window(s, keep_from(s, offset), eb);
    if (rc == ERR_OK && !is_inside(s, offset, len))
        rc = move_window(s, align_down(offset, STORE_ALIGN), eb);
    if (rc != ERR_OK)
        return rc;
    end = s->window_at + s->window_len;
    if (offset >= end)
        *out = (struct span){"", 0};
    else
        *out = (struct span){at_offset(s, offset), MIN(len, end - offset)};
    return ERR_OK;
}

void
wal_scan_end(struct wal_scan *s)
{
    scan_stop_readahead(s);
    scan_spare_keep(s->spare, &s->window);
    s->window_len = 0;
    free(s->own);
    s->records = s->own = NULL;
}

/* ---- one record ---- */

static enum scanned
no_batch(struct errbuf *eb, const char *why)
{
    (void)err_set(eb, ERR_CORRUPT, "%s", why);
    return SCAN_END;
}

static enum scanned
scan_check_payload(const struct wal_scan *s, const struct log_record *m,
                   struct errbuf *eb)
{
    uint64_t bad;

    if (m->kind == LOG_RECORD_BUCKET)
        return hash_crc32c(0, m->body.at, m->body.len) == m->payload_sum
                   ? SCAN_BATCH
                   : no_batch(eb, "a payload's sum is wrong");
    if (m->block_sums.len != 4 * block_count(m->payload))
        return no_batch(eb, "a payload lacks sums");
    if (block_check(block_seed(s->source.cluster_sum, &m->content, 0), 0, m->body.at,
                    m->payload, m->block_sums.at, &bad) != ERR_OK)
        return no_batch(eb, "a payload's sum is wrong");
    return SCAN_BATCH;
}

static bool
is_padding_clean(const char *at, uint64_t len)
{
    /* Every byte equals the one before; memcmp compares many at a time. */
    return len == 0 || (at[0] == '\0' && memcmp(at, at + 1, len - 1) == 0);
}

/* Parses the record at `offset`. Checks that the header belongs to this segment, and the payload
 * against its sums. */
static enum scanned
scan_record(struct wal_scan *s, uint64_t offset, struct log_record *m, struct errbuf *eb)
{
    struct span window;
    size_t need;
    enum log_record_result got;
    uint64_t whole;
    enum err rc = scan_look(s, offset, HEAD_MAX, &window, eb);

    if (rc != ERR_OK)
        return SCAN_ERROR;
    if (window.len == 0)
        return no_batch(eb, "the segment ends");
    got = log_record_parse_placed(window, m, &need, eb);
    if (got == LOG_RECORD_NEWER)
        return SCAN_NEWER;
    if (got == LOG_RECORD_ZERO) {
        err_forget(eb);
        return SCAN_END;
    }
    if (got != LOG_RECORD_OK)
        return got == LOG_RECORD_MORE ? no_batch(eb, "a header is cut off") : SCAN_END;
    if (!log_record_is_at(m, s->source.segment, s->source.generation, offset))
        return no_batch(eb, "a header of another place");
    whole = m->head_len + align_up(m->payload, 512);
    if (m->payload > BATCH_MAX || whole > BATCH_MAX)
        return no_batch(eb, "a record longer than a batch");
    return SCAN_BATCH;
}

/* ---- one batch ---- */

static enum scanned
scan_check_record(struct wal_scan *s, const struct log_record *m, bool first,
                  struct errbuf *eb)
{
    if (first && s->batch != 0 && m->batch != s->batch)
        return no_batch(eb, "a batch with another number");
    if (first && m->epoch < s->epoch)
        return no_batch(eb, "a batch of an earlier start");
    if (!first && (m->batch != s->records[0].batch || m->epoch != s->records[0].epoch))
        return no_batch(eb, "a record of another batch");
    if (m->kind == LOG_RECORD_SEGMENT_HEADER || m->kind >= LOG_RECORD_BODY)
        return no_batch(eb, "a member that does not belong in a log");
    return SCAN_BATCH;
}

/* Parses the headers first, to know the batch's length; then makes the window cover all of it. */
static enum scanned
scan_heads(struct wal_scan *s, uint64_t *end, uint64_t *moves, struct errbuf *eb)
{
    uint64_t at = s->offset;

    s->count = 0;
    *moves = UINT64_MAX;
    for (;;) {
        struct log_record *m = &s->records[s->count];
        enum scanned got;

        if (s->count == BATCH_RECORDS)
            return no_batch(eb, "a batch of too many records");
        got = scan_record(s, at, m, eb);
        if (got == SCAN_BATCH)
            got = scan_check_record(s, m, s->count == 0, eb);
        if (got != SCAN_BATCH)
            return got;
        if (s->count++ == 0)
            *moves = s->moves;
        at = log_record_end(m);
        if (at - s->offset > BATCH_MAX)
            return no_batch(eb, "a batch that is too long");
        if (m->last)
            break;
    }
    *end = at;
    return at % STORE_ALIGN == 0
               ? SCAN_BATCH
               : no_batch(eb, "a batch that does not end at a multiple of 4 KiB");
}

static enum scanned
scan_payloads(struct wal_scan *s, uint64_t end, uint64_t moves, struct errbuf *eb)
{
    struct span batch;
    uint64_t at = s->offset;

    if (scan_look(s, s->offset, end - s->offset, &batch, eb) != ERR_OK)
        return SCAN_ERROR;
    if (batch.len < end - s->offset)
        return no_batch(eb, "the segment ends inside a batch");
    for (uint32_t i = 0; i < s->count; i++) {
        struct log_record *m = &s->records[i];
        const char *head = batch.at + (at - s->offset);
        enum scanned got;
        size_t need;

        /* If the window has moved, the spans are invalid: parse again. */
        if (s->moves != moves &&
            log_record_parse((struct span){head, batch.len - (at - s->offset)}, m, &need,
                             eb) != LOG_RECORD_OK)
            return no_batch(eb, "a header changed while it was read");
        m->body = (struct span){head + m->head_len, m->payload};
        got = scan_check_payload(s, m, eb);
        if (got != SCAN_BATCH)
            return got;
        if (!is_padding_clean(m->body.at + m->payload,
                              align_up(m->payload, 512) - m->payload))
            return no_batch(eb, "padding that is not zero");
        at = log_record_end(m);
    }
    return SCAN_BATCH;
}

static enum scanned
scan_next_batch(struct wal_scan *s, struct errbuf *eb)
{
    uint64_t end = 0, moves;
    enum scanned got = scan_heads(s, &end, &moves, eb);

    if (got == SCAN_BATCH)
        got = scan_payloads(s, end, moves, eb);
    if (got != SCAN_BATCH)
        return got;
    s->offset = end;
    s->batch = s->records[0].batch + 1;
    s->epoch = s->records[0].epoch;
    return SCAN_BATCH;
}

enum scanned
wal_scan_next(struct wal_scan *s, struct errbuf *eb)
{
    s->records = s->own;
    return scan_next_batch(s, eb);
}

enum err
wal_scan_fill(struct wal_scan *s, struct errbuf *eb)
{
    return move_window(s, align_down(s->offset, STORE_ALIGN), eb);
}

enum scanned
wal_scan_within(struct wal_scan *s, struct log_record *into)
{
    enum scanned got;

    s->records = into;
    s->within = true;
    got = scan_next_batch(s, NULL);
    s->within = false;
    s->records = s->own;
    return got == SCAN_ERROR ? SCAN_MORE : got; /* no read has failed: the window ended */
}

/* ---- search behind damage ---- */

void
wal_scan_resume(struct wal_scan *s, const struct wal_scan_next_batch *to)
{
    s->offset = to->offset;
    s->batch = to->batch;
}

bool
wal_scan_find_next(struct wal_scan *s, uint64_t far, struct wal_scan_next_batch *out)
{
    uint64_t from = s->offset, wanted = s->batch, epoch = s->epoch;
    uint64_t end = far < s->source.size - MIN(from, s->source.size) ? from + far + 1
                                                                    : s->source.size;
    bool found = false;

    s->records = s->own;
    for (uint64_t at = from + STORE_ALIGN; !found && at < end; at += STORE_ALIGN) {
        struct log_record *m = &s->records[0];

        if (scan_record(s, at, m, NULL) != SCAN_BATCH || m->batch <= wanted ||
            m->epoch < epoch || m->after_unsynced ||
            (s->source.cached && m->unsynced == 0))
            continue;
        *out = (struct wal_scan_next_batch){at, m->batch, m->epoch, m->unsynced};
        wal_scan_resume(s, out);
        found = wal_scan_next(s, NULL) == SCAN_BATCH;
        s->epoch = epoch;
    }
    s->offset = from;
    s->batch = wanted;
    return found;
}

uint64_t
wal_scan_epoch_before(struct wal_scan *s)
{
    uint64_t least = MAX(s->offset, STORE_ALIGN + BATCH_MAX) - BATCH_MAX;
    struct log_record *m = &s->own[0];

    for (uint64_t at = s->offset; at > least; at -= STORE_ALIGN) {
        if (scan_record(s, at - STORE_ALIGN, m, NULL) == SCAN_BATCH &&
            m->batch + 1 == s->batch)
            return m->epoch;
    }
    return 0;
}

/* Reads a record of a damaged batch, with its payload if that is intact. */
static enum scanned
scan_salvage_record(struct wal_scan *s, uint64_t at, uint64_t to, struct log_record *m)
{
    struct span whole;
    size_t need;
    enum scanned got = scan_record(s, at, m, NULL);

    if (got != SCAN_BATCH || m->kind == LOG_RECORD_SEGMENT_HEADER ||
        m->kind >= LOG_RECORD_BODY)
        return got == SCAN_BATCH ? SCAN_END : got;
    if (log_record_end(m) > to)
        return SCAN_END;
    if (scan_look(s, at, log_record_end(m) - at, &whole, NULL) != ERR_OK)
        return SCAN_ERROR;
    if (log_record_parse(whole, m, &need, NULL) != LOG_RECORD_OK)
        return SCAN_END;
    m->body_damaged = whole.len < m->head_len + m->payload;
    if (m->payload > 0 && !m->body_damaged) {
        m->body = (struct span){whole.at + m->head_len, m->payload};
        m->body_damaged = scan_check_payload(s, m, NULL) != SCAN_BATCH;
    }
    if (m->body_damaged)
        m->body = (struct span){"", 0};
    return SCAN_BATCH;
}

enum err
wal_scan_salvage(struct wal_scan *s, uint64_t to, uint64_t below, wal_salvage_fn *fn,
                 void *arg, bool *whole, struct errbuf *eb)
{
    struct log_record *m = &s->own[0];
    uint64_t at = s->offset, batch = s->batch, epoch = s->epoch;
    bool over = to < s->source.size; /* else the last batch is wanted, too */
    enum err rc = ERR_OK;

    *whole = true;
    while (rc == ERR_OK && at < to) {
        enum scanned got = scan_salvage_record(s, at, to, m);

        if (got == SCAN_ERROR)
            return err_set(eb, ERR_IO, "the log can't be read at %" PRIu64, at);
        if (got == SCAN_NEWER)
            return err_set(eb, ERR_NOT_IMPLEMENTED,
                           "the log has a record at %" PRIu64
                           " that this program does not know",
                           at);
        if (got != SCAN_BATCH || m->batch < batch || m->batch >= below ||
            m->epoch < epoch) {
            at += 512;
            *whole = false;
            continue;
        }
        if (m->kind == LOG_RECORD_BUCKET && m->body_damaged)
            *whole = false; /* it is not read again */
        at = log_record_end(m);
        batch = m->batch;
        epoch = m->epoch;
        if (m->last && m->batch + 1 == below) { /* no later record is wanted */
            over = true;
            to = at;
        }
        rc = fn(arg, m);
    }
    *whole &= over;
    return rc;
}

/* ---- body segments ---- */

enum scanned
place_scan(const struct scan_source *s, uint64_t offset, struct log_record *out,
           struct iobuf **buf, uint64_t *next, struct errbuf *eb)
{
    uint32_t skip;
    uint64_t have;
    size_t need;
    enum log_record_result got;

    *buf = NULL;
    if (offset + BODY_HEAD > s->size)
        return no_batch(eb, "the segment ends");
    if (read_span(s->file, offset, BODY_HEAD, DEADLINE_NEVER, buf, &skip, &have, eb) !=
        ERR_OK)
        return SCAN_ERROR;
    got = log_record_parse((struct span){(*buf)->at + skip, have}, out, &need, eb);
    if (got == LOG_RECORD_OK &&
        log_record_is_at(out, s->segment, s->generation, offset) &&
        (out->kind == LOG_RECORD_BODY || out->kind == LOG_RECORD_OPEN ||
         out->kind == LOG_RECORD_DEAD) &&
        out->span >= BODY_HEAD && out->span % STORE_ALIGN == 0 &&
        out->span <= s->size - offset) {
        *next = offset + out->span;
        return SCAN_BATCH;
    }
    iobuf_drop(buf);
    if (got == LOG_RECORD_NEWER)
        return SCAN_NEWER;
    if (got == LOG_RECORD_ZERO)
        err_forget(eb);
    return got == LOG_RECORD_ZERO || got == LOG_RECORD_BAD
               ? SCAN_END
               : no_batch(eb, "no place begins here");
}
