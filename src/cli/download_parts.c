/* download_parts: a large object in ranges, several at a time, of one version, into a hidden file; gone on with after an
 * interruption. What has come is counted in blocks that are smaller than a range, so that an interruption throws little
 * away however many ranges were on their way. One fiber follows the blocks in order and verifies them while others come. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/note.h"
#include "cli/part_sums.h"
#include "cli/transfer.h"
#include "cli/verify.h"
#include "rt/loop.h"

#define PIECE (256u << 10)
#define BLOCK_BYTES                                                                      \
    (1u << 20) /* the note counts these; more where there would be too many of them */

struct ranges {
    struct flow *f;
    const struct item *it;
    const struct s3_object_info *info;
    struct files_part part;
    struct note note;                       /* part_bytes: of a block */
    char *note_path;                        /* owned */
    uint32_t count, next, inside, verified; /* blocks; `inside`: fibers */
    bool resumed;
    struct rt_cond came;   /* another block is whole, or all is over */
    struct verify verify;  /* by anything but parts: in order */
    struct part_sums sums; /* by the parts of its ETag: side by side */
    uint64_t object_part;  /* bytes of the object's own parts; 0: not known */
    uint64_t saved_ns;
    enum err rc;
    struct errbuf *eb;
};

static bool
download_parts_has(const struct ranges *r, uint32_t i)
{
    return r->note.have[i / 8] >> i % 8 & 1;
}

static uint64_t
block_len(const struct ranges *r, uint32_t i)
{
    return MIN(r->note.part_bytes, r->info->size - i * r->note.part_bytes);
}

/* The end of the blocks from `i` on that are all here, or all not; `most` of them make a range. */
static uint32_t
run_end(const struct ranges *r, uint32_t i)
{
    uint64_t most = MAX(PART_BYTES / r->note.part_bytes, 1);
    uint32_t end = i;

    while (end < r->count && end - i < most &&
           download_parts_has(r, end) == download_parts_has(r, i))
        end++;
    return end;
}

static void
download_parts_fail(struct ranges *r, enum err rc, const struct errbuf *eb)
{
    if (r->rc == ERR_OK) {
        r->rc = rc;
        *r->eb = *eb;
    }
    rt_cond_broadcast(&r->came);
}

/* ---- one range ---- */

struct range_job {
    struct ranges *r;
    uint32_t block, end; /* the first that has not come; behind the last */
    struct arena *a;
    char *room;
};

/* Bytes up to `at` of the object stand in the hidden file: which blocks are whole by that? */
static void
count_blocks(struct range_job *j, uint64_t at)
{
    struct ranges *r = j->r;
    uint32_t before = j->block;

    while (j->block < j->end &&
           at >= j->block * r->note.part_bytes + block_len(r, j->block)) {
        r->note.have[j->block / 8] |= (unsigned char)(1u << j->block % 8);
        j->block++;
    }
    if (j->block == before)
        return;
    rt_cond_broadcast(&r->came);
    if (rt_now_ns() - r->saved_ns > 500000000u) {
        r->saved_ns = rt_now_ns();
        note_save(r->note_path, &r->note);
    }
}

/* Asks for what is left of the range. */
static enum err
range_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct range_job *j = arg;
    struct ranges *r = j->r;
    uint64_t at = j->block * r->note.part_bytes;
    uint64_t end = (j->end - 1) * r->note.part_bytes + block_len(r, j->end - 1);
    struct s3_get get = {.bucket = span_of(r->it->from_bucket),
                         .key = span_of(r->it->from),
                         .range = true,
                         .first = at,
                         .last = end - 1,
                         .if_match = r->info->etag};
    struct s3_object_info info;
    struct s3_call *call = NULL;
    enum err rc;

    arena_reset(j->a);
    rc = s3_get_begin(r->f->s->s3, &get, j->a, &info, &call, f, eb);
    while (rc == ERR_OK) {
        size_t n = 0;

        rc = s3_read(call, j->room, PIECE, &n, eb);
        f->retry = rc != ERR_OK && rc != ERR_CANCELLED;
        if (rc == ERR_OK && (n == 0) != (at == end)) {
            rc = err_set(eb, ERR_INCOMPLETE,
                         "the server sent another range than asked for");
            f->retry = true;
        }
        if (rc != ERR_OK || n == 0)
            break;
        rc = files_part_write(&r->part, at, j->room, n, eb);
        if (rc != ERR_OK)
            break;
        at += n;
        flow_bytes(r->f, n);
        count_blocks(j, at);
    }
    s3_end(&call);
    if (rc != ERR_OK && j->block < j->end)
        rc = transfer_damage(r->f->s->s3, &get, at, rc, f, eb);
    if (rc != ERR_OK && j->block < j->end)
        progress_back(&r->f->progress, at - j->block * r->note.part_bytes);
    return j->block == j->end ? ERR_OK : rc;
}

static void
fetch_ranges(void *arg)
{
    struct ranges *r = arg;
    struct range_job j = {.r = r};

    r->inside++;
    j.a = arena_new(KIB(16), MIB(1));
    j.room = xmalloc(PIECE);
    while (r->rc == ERR_OK && r->next < r->count) {
        struct errbuf eb = {{0}};
        enum err rc;

        j.block = r->next;
        r->next = j.end = run_end(r, j.block);
        if (download_parts_has(r, j.block))
            continue;
        rc = flow_try(r->f, range_attempt, &j, &eb);
        if (rc != ERR_OK) {
            download_parts_fail(r, rc, &eb);
            break;
        }
    }
    free(j.room);
    arena_free(&j.a);
    r->inside--;
    rt_cond_broadcast(&r->came);
}

/* ---- verifying ---- */

struct verify_job {
    struct ranges *r;
    uint64_t at, len;
    enum err rc;
    struct errbuf eb;
};

static void
verify_work(void *arg)
{
    struct verify_job *j = arg;
    char *room = xmalloc(PIECE);

    while (j->rc == ERR_OK && j->len > 0) {
        size_t n = 0;

        j->rc =
            files_part_read_now(&j->r->part, j->at, room, MIN(PIECE, j->len), &n, &j->eb);
        if (j->rc == ERR_OK && n == 0)
            j->rc = err_set(&j->eb, ERR_IO, "the written data cannot be read back");
        verify_add(&j->r->verify, room, n);
        j->at += n;
        j->len -= n;
    }
    free(room);
}

/* part_sums_there */
static uint64_t
bytes_there(const void *arg, uint64_t at, uint64_t end)
{
    const struct ranges *r = arg;
    uint64_t to = at;

    while (to < end && download_parts_has(r, (uint32_t)(to / r->note.part_bytes)))
        to = (to / r->note.part_bytes + 1) * r->note.part_bytes;
    return MIN(to, end) - at;
}

struct lanes_job {
    struct ranges *r;
    struct part_lane lanes[PART_SUMS_LANES];
    unsigned count;
    enum err rc;
    struct errbuf eb;
};

static void
lanes_work(void *arg)
{
    struct lanes_job *j = arg;

    j->rc = part_sums_run(&j->r->sums, &j->r->part, j->lanes, j->count, &j->eb);
}

static void
follow_parts(struct ranges *r)
{
    while (r->rc == ERR_OK && !part_sums_done(&r->sums)) {
        struct lanes_job j = {.r = r};

        j.count = part_sums_next(&r->sums, bytes_there, r, j.lanes);
        if (j.count == 0) {
            if (rt_cond_wait(&r->came, DEADLINE_NEVER) != ERR_OK)
                return;
            continue;
        }
        if (rt_blocking(lanes_work, &j, DEADLINE_NEVER) != ERR_OK)
            return;
        if (j.rc != ERR_OK)
            download_parts_fail(r, j.rc, &j.eb);
    }
    r->verified = r->rc == ERR_OK ? r->count : 0;
}

static void
download_parts_follow(void *arg)
{
    struct ranges *r = arg;

    if (r->verify.by == VERIFY_PARTS) {
        follow_parts(r);
        return;
    }

    while (r->rc == ERR_OK && r->verified < r->count) {
        struct verify_job j = {.r = r, .at = r->verified * r->note.part_bytes};
        uint32_t end = run_end(r, r->verified);
        enum err rc;

        if (!download_parts_has(r, r->verified)) {
            if (rt_cond_wait(&r->came, DEADLINE_NEVER) != ERR_OK)
                return;
            continue;
        }
        j.len = (end - 1) * r->note.part_bytes + block_len(r, end - 1) - j.at;
        rc = rt_blocking(verify_work, &j, DEADLINE_NEVER);
        if (rc != ERR_OK)
            return;
        if (j.rc != ERR_OK) {
            download_parts_fail(r, j.rc, &j.eb);
            return;
        }
        r->verified = end;
    }
}

/* ---- all of it ---- */

static enum err
download_parts_part_attempt(void *arg, struct s3_failure *f, struct errbuf *eb)
{
    struct ranges *r = arg;
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_object_info info;
    enum err rc = s3_head_part(r->f->s->s3, span_of(r->it->from_bucket),
                               span_of(r->it->from), 1, a, &info, f, eb);

    if (rc == ERR_OK && info.partial)
        r->object_part = info.body_length;
    arena_free(&a);
    return rc;
}

/* How long are the object's own parts? The server is asked; one that does not know is guessed at: our size and others' usual one. */
static void
learn_parts(struct ranges *r)
{
    static const uint64_t usual[] = {PART_BYTES, 8u << 20, 5u << 20, 64u << 20};
    unsigned char md5[16];
    unsigned parts = 0;
    struct errbuf eb = {{0}};

    if (!etag_parse(r->info->etag, md5, &parts) || parts == 0)
        return;
    (void)!flow_try(r->f, download_parts_part_attempt, r, &eb);
    for (size_t i = 0; r->object_part == 0 && i < ARRAY_LEN(usual); i++)
        if ((r->info->size + usual[i] - 1) / usual[i] == parts)
            r->object_part = usual[i];
}

static enum err
download_parts_begin(struct ranges *r)
{
    const char *names[] = {r->f->s->endpoint, r->it->from_bucket, r->it->from, NULL,
                           NULL};
    char *folder = realpath(".", NULL), *path;
    struct files_target t = {r->it->to, r->it->to_root};
    struct note old;
    enum err rc;

    path = r->it->to[0] == '/' || folder == NULL ? xstrdup(r->it->to)
                                                 : xasprintf("%s/%s", folder, r->it->to);
    names[3] = path;
    r->note_path = note_path("download", names);
    free(folder);
    free(path);
    r->resumed = note_load(r->note_path, &old) && !r->f->restart &&
                 old.size == r->info->size && span_is(r->info->etag, old.id) &&
                 old.part_bytes == r->note.part_bytes;
    if (r->resumed)
        r->note = old;
    rc = files_part_open(&t, r->resumed, &r->part, r->eb);
    if (rc != ERR_OK)
        return rc;
    if (r->part.own) { /* nothing here to go on with, now or later */
        r->note = (struct note){.size = r->note.size, .part_bytes = r->note.part_bytes};
        memcpy(r->note.id, r->info->etag.at,
               MIN(r->info->etag.len, sizeof r->note.id - 1));
        r->resumed = false;
        free(r->note_path);
        r->note_path = NULL;
    }
    for (uint32_t i = 0; r->resumed && i < r->count; i++) {
        /* A block that the hidden file does not even reach is not there. */
        if (download_parts_has(r, i) &&
            i * r->note.part_bytes + block_len(r, i) > r->part.file.size)
            r->note.have[i / 8] &= (unsigned char)~(1u << i % 8);
        if (download_parts_has(r, i))
            progress_resumed(&r->f->progress, block_len(r, i));
    }
    return ERR_OK;
}

static bool
is_right(struct ranges *r)
{
    return r->verify.by == VERIFY_PARTS ? part_sums_match(&r->sums, r->verify.md5)
                                        : verify_end(&r->verify);
}

static enum err
fetch_all(struct ranges *r)
{
    struct rt_group group;

    verify_init(&r->verify, r->info, 0);
    if (r->verify.by != VERIFY_SUM) {
        verify_fini(&r->verify);
        learn_parts(r);
        verify_init(&r->verify, r->info, r->object_part);
    }
    if (r->verify.by == VERIFY_PARTS)
        part_sums_init(&r->sums, r->info->size, r->object_part);
    rt_cond_init(&r->came);
    rt_group_begin(&group);
    if (rt_group_start(&group, download_parts_follow, r) != ERR_OK)
        return err_set(r->eb, ERR_BUSY, "no fiber is left");
    for (int i = 1; i < PARTS_AT_ONCE; i++)
        if (rt_group_start(&group, fetch_ranges, r) != ERR_OK)
            break; /* fewer at once, then */
    fetch_ranges(r);
    rt_group_join(&group);
    if (r->rc == ERR_OK && r->verified < r->count)
        r->rc = err_set(r->eb, ERR_CANCELLED, "interrupted");
    if (r->rc == ERR_OK && !is_right(r)) {
        r->rc = verify_refuse(&r->verify, r->info, r->eb);
        if (r->resumed)
            err_prefix(r->eb, "discarded the data of an earlier attempt");
    }
    verify_fini(&r->verify);
    part_sums_fini(&r->sums);
    return r->rc;
}

enum err
transfer_down_parts(struct flow *f, const struct item *it,
                    const struct s3_object_info *info, struct errbuf *eb)
{
    struct ranges r = {.f = f, .it = it, .info = info, .eb = eb};
    enum err rc;

    r.note = (struct note){.size = info->size, .part_bytes = BLOCK_BYTES};
    while ((info->size + r.note.part_bytes - 1) / r.note.part_bytes > PARTS_MAX)
        r.note.part_bytes *= 2;
    r.count = (uint32_t)((info->size + r.note.part_bytes - 1) / r.note.part_bytes);
    memcpy(r.note.id, info->etag.at, MIN(info->etag.len, sizeof r.note.id - 1));
    if (!it->known)
        f->progress.total_bytes += info->size;
    rc = download_parts_begin(&r);
    if (rc == ERR_OK)
        rc = fetch_all(&r);
    if (rc == ERR_OK)
        rc = files_part_keep(&r.part, info->size, info->mtime_ms, eb);
    if (rc == ERR_OK) {
        note_drop(r.note_path);
    } else if (rc == ERR_BAD_DIGEST || rc == ERR_PRECONDITION || r.note_path == NULL) {
        files_part_remove(&r.part); /* nothing to go on with */
        note_drop(r.note_path);
    } else {
        struct rt_shield shield;

        rt_shield_begin(&shield);
        note_save(r.note_path, &r.note);
        rt_shield_end(&shield);
    }
    files_part_close(&r.part);
    free(r.note_path);
    return rc;
}
