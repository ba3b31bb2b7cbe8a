#include "disk/scan.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/hash.h"
#include "disk/block.h"
#include "disk/read.h"

void
log_scan_begin(struct log_scan *s, const struct scan_source *source, uint64_t offset,
               uint64_t group, uint64_t epoch)
{
    *s = (struct log_scan){
        .source = *source, .offset = offset, .group = group, .epoch = epoch, .wide = 1};
    s->members = s->own = xcalloc(GROUP_MEMBERS, sizeof *s->own);
}

/* ---- the window ---- */

/* A piece is read into the second half of a buffer; what a group has left of the one before is copied in front of it,
 * so a group fits wherever it begins. */
#define SCAN_PIECE (IOBUF_MAX / 2)
static_assert(GROUP_MAX <= SCAN_PIECE, "what is left of a group fits before a piece");

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
at_offset(const struct log_scan *s, uint64_t offset)
{
    return s->window->at + s->window_from + (offset - s->window_at);
}

static enum err
take_buffer(struct log_scan *s, struct iobuf **b)
{
    if (s->spare == NULL || s->spare->count == 0)
        return iobuf_get(IOBUF_MAX, b);
    *b = s->spare->at[--s->spare->count];
    return ERR_OK;
}

/* The same where buffers are scarce: then the window itself is read into, what is kept of it moved to its place first. A scan's
 * only window comes from beyond the limit: a log must be read before anything can be served, or given back, and scans within
 * scans cannot wait for each other. */
static enum err
take_buffer_or_window(struct log_scan *s, uint64_t begin, uint32_t kept, struct iobuf **b)
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

/* Into *b, which the caller has, and loses when it fails. */
static enum err
read_piece(struct log_scan *s, uint64_t from, struct iobuf **b, uint32_t *have,
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
read_ahead(void *arg)
{
    struct scan_piece *p = arg;

    p->rc = take_buffer(p->scan, &p->buf);
    if (p->rc == ERR_OK)
        p->rc = read_piece(p->scan, p->from, &p->buf, &p->have, NULL);
}

static void
stop_ahead(struct log_scan *s)
{
    for (unsigned i = 0; i < SCAN_AHEAD; i++) {
        struct scan_piece *p = &s->ahead[i];

        if (!p->busy)
            continue;
        rt_group_cancel(&p->group);
        rt_group_join(&p->group);
        iobuf_drop(&p->buf);
        p->busy = false;
    }
}

static struct scan_piece *
piece_at(struct log_scan *s, uint64_t from)
{
    for (unsigned i = 0; i < SCAN_AHEAD; i++) {
        if (s->ahead[i].busy && s->ahead[i].from == from)
            return &s->ahead[i];
    }
    return NULL;
}

/* Other fibers read on while this one works. Without them it is only slower. */
static void
start_ahead(struct log_scan *s, uint64_t from)
{
    for (unsigned n = 0; n < s->wide && from < s->source.size; n++, from += SCAN_PIECE) {
        unsigned i = 0;

        if (piece_at(s, from) != NULL)
            continue;
        while (i < SCAN_AHEAD && s->ahead[i].busy)
            i++;
        if (i == SCAN_AHEAD)
            return;
        s->ahead[i] = (struct scan_piece){.scan = s, .from = from};
        rt_group_begin(&s->ahead[i].group);
        s->ahead[i].busy =
            rt_group_start(&s->ahead[i].group, read_ahead, &s->ahead[i]) == ERR_OK;
        if (!s->ahead[i].busy)
            rt_group_join(&s->ahead[i].group);
    }
}

/* The piece behind what is kept from `begin` on: what was read ahead, when it is this one. The window is gone when it had to be
 * read into. */
static enum err
next_piece(struct log_scan *s, uint64_t begin, uint32_t kept, struct iobuf **b,
           uint32_t *have, struct errbuf *eb)
{
    struct scan_piece *p = piece_at(s, begin + kept);
    enum err rc;

    if (p != NULL) {
        rt_group_join(&p->group);
        p->busy = false;
        *b = p->buf;
        *have = p->have;
        p->buf = NULL;
        if (p->rc == ERR_OK)
            return ERR_OK;
    }
    stop_ahead(s);
    rc = take_buffer_or_window(s, begin, kept, b);
    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer to read a log");
    return read_piece(s, begin + kept, b, have, eb);
}

/* Keeps what the window has from `begin` on, and reads a piece behind it. */
static enum err
move_window(struct log_scan *s, uint64_t begin, struct errbuf *eb)
{
    uint64_t end = s->window_at + s->window_len;
    bool goes_on = s->window_len > 0 && begin >= s->window_at && begin <= end &&
                   end % DISK_ALIGN == 0 && end - begin <= SCAN_PIECE;
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
    /* Whoever begins where a log begins, or comes from here, reads on. */
    if ((goes_on || begin <= DISK_ALIGN) && have == SCAN_PIECE)
        start_ahead(s, begin + s->window_len);
    return ERR_OK;
}

/* The group at hand stays in the window while its members are looked at. */
static uint64_t
keep_from(const struct log_scan *s, uint64_t offset)
{
    bool in_group = s->offset <= offset && offset - s->offset <= GROUP_MAX;

    return align_down(in_group ? s->offset : offset, DISK_ALIGN);
}

static bool
is_inside(const struct log_scan *s, uint64_t offset, uint64_t len)
{
    uint64_t end = s->window_at + s->window_len;

    return s->window_len > 0 && offset >= s->window_at &&
           (offset + len <= end || end >= s->source.size);
}

/* Makes the window hold what the file has of [offset, offset + len); less only at the file's end. */
static enum err
look(struct log_scan *s, uint64_t offset, uint64_t len, struct span *out,
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
        rc = move_window(s, align_down(offset, DISK_ALIGN), eb);
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
log_scan_end(struct log_scan *s)
{
    stop_ahead(s);
    scan_spare_keep(s->spare, &s->window);
    s->window_len = 0;
    free(s->own);
    s->members = s->own = NULL;
}

/* ---- one member ---- */

static enum scanned
no_group(struct errbuf *eb, const char *why)
{
    (void)err_set(eb, ERR_CORRUPT, "%s", why);
    return SCAN_END;
}

static enum scanned
check_payload(const struct log_scan *s, const struct member *m, struct errbuf *eb)
{
    uint64_t bad;

    if (m->kind == MEMBER_BUCKET)
        return hash_crc32c(0, m->body.at, m->body.len) == m->payload_sum
                   ? SCAN_GROUP
                   : no_group(eb, "a payload's sum is wrong");
    if (m->block_sums.len != 4 * block_count(m->payload))
        return no_group(eb, "a payload lacks sums");
    if (block_check(block_seed(s->source.cluster_sum, &m->content, 0), 0, m->body.at,
                    m->payload, m->block_sums.at, &bad) != ERR_OK)
        return no_group(eb, "a payload's sum is wrong");
    return SCAN_GROUP;
}

static bool
is_padding_clean(const char *at, uint64_t len)
{
    /* Each byte is the one before it: compared many at a time. */
    return len == 0 || (at[0] == '\0' && memcmp(at, at + 1, len - 1) == 0);
}

/* The member at `offset`, its header judged by what binds it, its payload by its sums. */
static enum scanned
scan_member(struct log_scan *s, uint64_t offset, struct member *m, struct errbuf *eb)
{
    struct span window;
    size_t need;
    enum member_got got;
    uint64_t whole;
    enum err rc = look(s, offset, HEAD_MAX, &window, eb);

    if (rc != ERR_OK)
        return SCAN_ERROR;
    if (window.len == 0)
        return no_group(eb, "the segment ends");
    got = member_parse_placed(window, m, &need, eb);
    if (got == MEMBER_NEWER)
        return SCAN_NEWER;
    if (got == MEMBER_ZERO) {
        err_forget(eb);
        return SCAN_END;
    }
    if (got != MEMBER_GOOD)
        return got == MEMBER_MORE ? no_group(eb, "a header is cut off") : SCAN_END;
    if (!member_stands(m, s->source.segment, s->source.generation, offset))
        return no_group(eb, "a header of another place");
    whole = m->head_len + align_up(m->payload, 512);
    if (m->payload > GROUP_MAX || whole > GROUP_MAX)
        return no_group(eb, "a member longer than a group");
    return SCAN_GROUP;
}

/* ---- one group ---- */

static enum scanned
judge_member(struct log_scan *s, const struct member *m, bool first, struct errbuf *eb)
{
    if (first && s->group != 0 && m->group != s->group)
        return no_group(eb, "a group with another number");
    if (first && m->epoch < s->epoch)
        return no_group(eb, "a group of an earlier start");
    if (!first && (m->group != s->members[0].group || m->epoch != s->members[0].epoch))
        return no_group(eb, "a member of another group");
    if (m->kind == MEMBER_SEGMENT_HEADER || m->kind >= MEMBER_BODY)
        return no_group(eb, "a member that does not belong in a log");
    return SCAN_GROUP;
}

/* Headers first, so that the group's length is known; then the window is made to hold all of it. */
static enum scanned
scan_heads(struct log_scan *s, uint64_t *end, uint64_t *moves, struct errbuf *eb)
{
    uint64_t at = s->offset;

    s->count = 0;
    *moves = UINT64_MAX;
    for (;;) {
        struct member *m = &s->members[s->count];
        enum scanned got;

        if (s->count == GROUP_MEMBERS)
            return no_group(eb, "a group of too many members");
        got = scan_member(s, at, m, eb);
        if (got == SCAN_GROUP)
            got = judge_member(s, m, s->count == 0, eb);
        if (got != SCAN_GROUP)
            return got;
        if (s->count++ == 0)
            *moves = s->moves;
        at = member_end(m);
        if (at - s->offset > GROUP_MAX)
            return no_group(eb, "a group that is too long");
        if (m->last)
            break;
    }
    *end = at;
    return at % DISK_ALIGN == 0
               ? SCAN_GROUP
               : no_group(eb, "a group that does not end at a multiple of 4 KiB");
}

static enum scanned
scan_payloads(struct log_scan *s, uint64_t end, uint64_t moves, struct errbuf *eb)
{
    struct span group;
    uint64_t at = s->offset;

    if (look(s, s->offset, end - s->offset, &group, eb) != ERR_OK)
        return SCAN_ERROR;
    if (group.len < end - s->offset)
        return no_group(eb, "the segment ends inside a group");
    for (uint32_t i = 0; i < s->count; i++) {
        struct member *m = &s->members[i];
        const char *head = group.at + (at - s->offset);
        enum scanned got;
        size_t need;

        /* Parsed again where the window has moved, and the spans with it. */
        if (s->moves != moves &&
            member_parse((struct span){head, group.len - (at - s->offset)}, m, &need,
                         eb) != MEMBER_GOOD)
            return no_group(eb, "a header changed while it was read");
        m->body = (struct span){head + m->head_len, m->payload};
        got = check_payload(s, m, eb);
        if (got != SCAN_GROUP)
            return got;
        if (!is_padding_clean(m->body.at + m->payload,
                              align_up(m->payload, 512) - m->payload))
            return no_group(eb, "padding that is not zero");
        at = member_end(m);
    }
    return SCAN_GROUP;
}

static enum scanned
next_group(struct log_scan *s, struct errbuf *eb)
{
    uint64_t end = 0, moves;
    enum scanned got = scan_heads(s, &end, &moves, eb);

    if (got == SCAN_GROUP)
        got = scan_payloads(s, end, moves, eb);
    if (got != SCAN_GROUP)
        return got;
    s->offset = end;
    s->group = s->members[0].group + 1;
    s->epoch = s->members[0].epoch;
    return SCAN_GROUP;
}

enum scanned
log_scan_next(struct log_scan *s, struct errbuf *eb)
{
    s->members = s->own;
    return next_group(s, eb);
}

enum err
log_scan_fill(struct log_scan *s, struct errbuf *eb)
{
    return move_window(s, align_down(s->offset, DISK_ALIGN), eb);
}

enum scanned
log_scan_within(struct log_scan *s, struct member *into)
{
    enum scanned got;

    s->members = into;
    s->within = true;
    got = next_group(s, NULL);
    s->within = false;
    s->members = s->own;
    return got == SCAN_ERROR ? SCAN_MORE : got; /* nothing was read: it is the window */
}

/* ---- behind damage ---- */

void
log_scan_go(struct log_scan *s, const struct log_behind *to)
{
    s->offset = to->offset;
    s->group = to->group;
}

bool
log_scan_behind(struct log_scan *s, uint64_t far, struct log_behind *out)
{
    uint64_t from = s->offset, wanted = s->group, epoch = s->epoch;
    uint64_t end = far < s->source.size - MIN(from, s->source.size) ? from + far + 1
                                                                    : s->source.size;
    bool found = false;

    s->members = s->own;
    for (uint64_t at = from + DISK_ALIGN; !found && at < end; at += DISK_ALIGN) {
        struct member *m = &s->members[0];

        if (scan_member(s, at, m, NULL) != SCAN_GROUP || m->group <= wanted ||
            m->epoch < epoch || m->after_unsynced ||
            (s->source.cached && m->unsynced == 0))
            continue;
        *out = (struct log_behind){at, m->group, m->epoch, m->unsynced};
        log_scan_go(s, out);
        found = log_scan_next(s, NULL) == SCAN_GROUP;
        s->epoch = epoch;
    }
    s->offset = from;
    s->group = wanted;
    return found;
}

uint64_t
log_scan_epoch_before(struct log_scan *s)
{
    uint64_t least = MAX(s->offset, DISK_ALIGN + GROUP_MAX) - GROUP_MAX;
    struct member *m = &s->own[0];

    for (uint64_t at = s->offset; at > least; at -= DISK_ALIGN) {
        if (scan_member(s, at - DISK_ALIGN, m, NULL) == SCAN_GROUP &&
            m->group + 1 == s->group)
            return m->epoch;
    }
    return 0;
}

/* A member of a damaged group, with its payload where that is right. */
static enum scanned
salvage_member(struct log_scan *s, uint64_t at, uint64_t to, struct member *m)
{
    struct span whole;
    size_t need;
    enum scanned got = scan_member(s, at, m, NULL);

    if (got != SCAN_GROUP || m->kind == MEMBER_SEGMENT_HEADER || m->kind >= MEMBER_BODY)
        return got == SCAN_GROUP ? SCAN_END : got;
    if (member_end(m) > to)
        return SCAN_END;
    if (look(s, at, member_end(m) - at, &whole, NULL) != ERR_OK)
        return SCAN_ERROR;
    if (member_parse(whole, m, &need, NULL) != MEMBER_GOOD)
        return SCAN_END;
    m->body_damaged = whole.len < m->head_len + m->payload;
    if (m->payload > 0 && !m->body_damaged) {
        m->body = (struct span){whole.at + m->head_len, m->payload};
        m->body_damaged = check_payload(s, m, NULL) != SCAN_GROUP;
    }
    if (m->body_damaged)
        m->body = (struct span){"", 0};
    return SCAN_GROUP;
}

enum err
log_scan_salvage(struct log_scan *s, uint64_t to, uint64_t below, log_salvage_fn *fn,
                 void *arg, bool *whole, struct errbuf *eb)
{
    struct member *m = &s->own[0];
    uint64_t at = s->offset, group = s->group, epoch = s->epoch;
    bool over = to < s->source.size; /* a group stands there; else the last is wanted */
    enum err rc = ERR_OK;

    *whole = true;
    while (rc == ERR_OK && at < to) {
        enum scanned got = salvage_member(s, at, to, m);

        if (got == SCAN_ERROR)
            return err_set(eb, ERR_IO, "the log can't be read at %" PRIu64, at);
        if (got == SCAN_NEWER)
            return err_set(eb, ERR_NOT_BUILT,
                           "the log has a record at %" PRIu64
                           " that this program does not know",
                           at);
        if (got != SCAN_GROUP || m->group < group || m->group >= below ||
            m->epoch < epoch) {
            at += 512;
            *whole = false;
            continue;
        }
        if (m->kind == MEMBER_BUCKET && m->body_damaged)
            *whole = false; /* nobody reads it again */
        at = member_end(m);
        group = m->group;
        epoch = m->epoch;
        if (m->last && m->group + 1 == below) { /* what follows is not wanted */
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
place_scan(const struct scan_source *s, uint64_t offset, struct member *out,
           struct iobuf **buf, uint64_t *next, struct errbuf *eb)
{
    uint32_t skip;
    uint64_t have;
    size_t need;
    enum member_got got;

    *buf = NULL;
    if (offset + BODY_HEAD > s->size)
        return no_group(eb, "the segment ends");
    if (read_span(s->file, offset, BODY_HEAD, DEADLINE_NEVER, buf, &skip, &have, eb) !=
        ERR_OK)
        return SCAN_ERROR;
    got = member_parse((struct span){(*buf)->at + skip, have}, out, &need, eb);
    if (got == MEMBER_GOOD && member_stands(out, s->segment, s->generation, offset) &&
        (out->kind == MEMBER_BODY || out->kind == MEMBER_OPEN ||
         out->kind == MEMBER_DEAD) &&
        out->span >= BODY_HEAD && out->span % DISK_ALIGN == 0 &&
        out->span <= s->size - offset) {
        *next = offset + out->span;
        return SCAN_GROUP;
    }
    iobuf_drop(buf);
    if (got == MEMBER_NEWER)
        return SCAN_NEWER;
    if (got == MEMBER_ZERO)
        err_forget(eb);
    return got == MEMBER_ZERO || got == MEMBER_BAD ? SCAN_END
                                                   : no_group(eb, "no place begins here");
}
