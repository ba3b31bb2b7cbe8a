#include "store/wal/truncated.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/core/core.h"
#include "store/segment/space.h"
#include "store/store_entry.h"
#include "store/wal/wal.h"
#include "wire/record.h"

#define TRUNCATED_KIND    34
#define TRUNCATED_VERSION 1
#define RANGE_BYTES       16u
/* There are at most as many ranges as logs plus power cuts since the oldest log began. */
#define RANGES_MAX 16384u
#define FILE_MAX   (TRUNCATED_LISTS * RANGES_MAX * RANGE_BYTES + 256)

enum field {
    FIELD_NATIVE = 1,
    FIELD_CACHED,
    FIELD_LOST,
    FIELD_FORMER_MARK, /* of former versions: a durable mark with another meaning */
    FIELD_DURABLE_MARK,
    FIELD_DAMAGED
};

void
truncated_fini(struct truncated *r)
{
    for (unsigned i = 0; i < TRUNCATED_LISTS; i++)
        free(r->of[i].at);
    *r = (struct truncated){0};
}

/* Asserts that the ranges ascend and do not touch. */
static void
list_check(const struct truncated *r, unsigned list)
{
    assert(list < TRUNCATED_LISTS);
    assert(r->of[list].count <= r->of[list].room);
    for (uint32_t i = 0; i < r->of[list].count; i++) {
        const struct truncated_range *at = &r->of[list].at[i];

        assert(at->first <= at->last);
        assert(i == 0 || at[-1].last + 1 < at->first);
    }
}

static bool
covers(const struct truncated *r, unsigned list, uint64_t first, uint64_t last)
{
    assert(list < TRUNCATED_LISTS);
    assert(first <= last);
    for (uint32_t i = 0; i < r->of[list].count; i++) {
        const struct truncated_range *at = &r->of[list].at[i];

        if (at->first <= first && last <= at->last)
            return true;
    }
    return false;
}

void
truncated_check(const struct truncated *r)
{
    for (unsigned i = 0; i < TRUNCATED_LISTS; i++)
        list_check(r, i);
}

bool
truncated_covers(const struct truncated *r, enum store_class class, uint64_t first,
                 uint64_t last)
{
    return covers(r, class, first, last);
}

bool
truncated_covers_lost(const struct truncated *r, uint64_t first, uint64_t last)
{
    return covers(r, TRUNCATED_LOST, first, last);
}

uint64_t
truncated_next_after(const struct truncated *r, enum store_class class, uint64_t batch)
{
    for (uint32_t i = 0; i < r->of[class].count; i++) {
        if (r->of[class].at[i].first > batch)
            return r->of[class].at[i].first;
    }
    return 0;
}

static void
truncated_insert(struct truncated *r, unsigned list, uint32_t i,
                 struct truncated_range range)
{
    struct truncated_range *at;

    assert(i <= r->of[list].count);
    assert(range.first <= range.last);
    if (r->of[list].count == r->of[list].room) {
        r->of[list].room = MAX(16u, 2 * r->of[list].room);
        r->of[list].at =
            xrealloc(r->of[list].at, r->of[list].room * sizeof *r->of[list].at);
    }
    at = r->of[list].at;
    memmove(&at[i + 1], &at[i], (r->of[list].count - i) * sizeof *at);
    at[i] = range;
    r->of[list].count++;
}

static void
truncated_drop(struct truncated *r, unsigned list, uint32_t i, uint32_t count)
{
    struct truncated_range *at = r->of[list].at;

    assert(i + count <= r->of[list].count);
    assert(count > 0);
    memmove(&at[i], &at[i + count], (r->of[list].count - i - count) * sizeof *at);
    r->of[list].count -= count;
}

static void
add(struct truncated *r, unsigned list, uint64_t first, uint64_t last)
{
    struct truncated_range range = {first, last};
    uint32_t i = 0, touched = 0;

    assert(list < TRUNCATED_LISTS);
    if (first > last)
        return;
    while (i < r->of[list].count && r->of[list].at[i].last + 1 < first)
        i++;
    while (i + touched < r->of[list].count &&
           r->of[list].at[i + touched].first <= last + 1) {
        range.first = MIN(range.first, r->of[list].at[i + touched].first);
        range.last = MAX(range.last, r->of[list].at[i + touched].last);
        touched++;
    }
    if (touched > 0)
        truncated_drop(r, list, i, touched);
    truncated_insert(r, list, i, range);
    list_check(r, list);
}

void
truncated_add(struct truncated *r, enum store_class class, uint64_t first, uint64_t last)
{
    add(r, class, first, last);
}

void
truncated_add_lost(struct truncated *r, uint64_t first, uint64_t last)
{
    add(r, TRUNCATED_LOST, first, last);
}

bool
truncated_gap_before(const struct truncated *r, uint64_t batch)
{
    return r->of[TRUNCATED_LOST].count > 0 && r->of[TRUNCATED_LOST].at[0].first <= batch;
}

static void
forget(struct truncated *r, unsigned list, uint64_t oldest)
{
    uint32_t n = 0;

    assert(list < TRUNCATED_LISTS);
    while (n < r->of[list].count && r->of[list].at[n].last < oldest)
        n++;
    if (n > 0)
        truncated_drop(r, list, 0, n);
}

void
truncated_forget(struct truncated *r, enum store_class class, uint64_t oldest)
{
    forget(r, class, oldest);
    if (class == STORE_CACHED)
        forget(r, TRUNCATED_LOST, oldest);
}

/* ---- bytes ---- */

static void
put_ranges(struct record_writer *w, const struct truncated *r, unsigned list)
{
    size_t len = (size_t)r->of[list].count * RANGE_BYTES;
    char *bytes, *at;

    if (len == 0)
        return;
    bytes = at = xmalloc(len);
    for (uint32_t i = 0; i < r->of[list].count; i++) {
        uint64_t two[2] = {r->of[list].at[i].first, r->of[list].at[i].last};

        for (unsigned k = 0; k < 2; k++)
            for (unsigned b = 8; b-- > 0;)
                *at++ = (char)(two[k] >> (8 * b));
    }
    record_put_span(w, (uint8_t)(FIELD_NATIVE + list), (struct span){bytes, len});
    free(bytes);
}

void
truncated_encode(const struct truncated *r, struct buf *out)
{
    struct record_writer w;

    truncated_check(r);
    record_begin(&w, out, TRUNCATED_KIND, TRUNCATED_VERSION);
    for (unsigned i = 0; i < TRUNCATED_LISTS; i++)
        put_ranges(&w, r, i);
    if (r->durable_mark != 0)
        record_put_u64(&w, FIELD_DURABLE_MARK, r->durable_mark);
    if (r->damaged != 0)
        record_put_u64(&w, FIELD_DAMAGED, r->damaged);
    record_end(&w);
}

static bool
take_ranges(struct truncated *r, unsigned list, struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);
    uint64_t before = 0;

    if (value.len == 0 || value.len % RANGE_BYTES != 0 ||
        value.len / RANGE_BYTES > RANGES_MAX || r->of[list].count > 0)
        return false;
    while (cursor_left(&c) > 0) {
        uint64_t first = take_be(&c, 8), last = take_be(&c, 8);

        if (first == 0 || first > last || last == UINT64_MAX ||
            (before != 0 && first <= before + 1))
            return false;
        truncated_insert(r, list, r->of[list].count,
                         (struct truncated_range){first, last});
        before = last;
    }
    return true;
}

enum err
truncated_decode(struct span bytes, struct truncated *out, struct errbuf *eb)
{
    struct record record;
    struct span value;
    uint8_t id;
    enum err rc = record_open(bytes, &record, eb);
    uint64_t former = 0;
    bool good = true;

    *out = (struct truncated){0};
    if (rc != ERR_OK)
        return rc;
    if (record.kind != TRUNCATED_KIND || record.len != bytes.len)
        return err_set(eb, ERR_CORRUPT, "no list of truncated logs");
    if (record.version != TRUNCATED_VERSION)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "the list of truncated logs has version %u, this program reads %u",
                       record.version, TRUNCATED_VERSION);
    while (good && record_next(&record, &id, &value)) {
        if (id >= FIELD_NATIVE && id <= FIELD_LOST)
            good = take_ranges(out, id - FIELD_NATIVE, value);
        else if (id == FIELD_FORMER_MARK)
            good = record_u64(value, &former) == ERR_OK;
        else if (id == FIELD_DURABLE_MARK)
            good = record_u64(value, &out->durable_mark) == ERR_OK;
        else if (id == FIELD_DAMAGED)
            good = record_u64(value, &out->damaged) == ERR_OK;
    }
    out->durable_mark = MAX(out->durable_mark, former);
    if (good)
        return ERR_OK;
    truncated_fini(out);
    return err_set(eb, ERR_CORRUPT, "the list of truncated logs is malformed");
}

/* ---- the file ---- */

enum err
truncated_load(struct rt_dir *state, struct truncated *out, struct errbuf *eb)
{
    char *bytes = NULL;
    size_t len = 0;
    enum err rc = rt_file_load(state, TRUNCATED_FILE, FILE_MAX, &bytes, &len, eb);

    *out = (struct truncated){0};
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc == ERR_OK)
        rc = truncated_decode((struct span){bytes, len}, out, eb);
    free(bytes);
    if (rc == ERR_CORRUPT || rc == ERR_TOO_LARGE) {
        LOG(LOG_ERROR, "store.truncated_list_damaged",
            "gaps that compaction left between logs will look like damage",
            L_TEXT("folder", rt_dir_path(state)),
            L_TEXT("error", eb != NULL ? eb->text : ""));
        rc = ERR_OK;
    }
    return rc;
}

enum err
truncated_save(struct rt_dir *state, const struct truncated *r, struct errbuf *eb)
{
    struct buf bytes;
    enum err rc;

    buf_init(&bytes, FILE_MAX);
    truncated_encode(r, &bytes);
    rc = bytes.full ? err_set(eb, ERR_INTERNAL, "more than %u ranges of truncated logs",
                              RANGES_MAX)
                    : rt_file_store(state, TRUNCATED_FILE, bytes.at, bytes.len, 0600, eb);
    buf_fini(&bytes);
    return rc;
}

/* ---- of an open store ---- */

enum err
truncated_persist(struct store *d, struct errbuf *eb)
{
    enum err rc = rt_sem_acquire(&d->wals->truncated_turn, DEADLINE_NEVER);

    assert(on_owner(d));
    if (rc != ERR_OK)
        return err_set(eb, rc, "the list of truncated logs was not written: %s",
                       err_name(rc));
    rc = truncated_save(d->state, &d->wals->truncated, eb);
    if (rc == ERR_NO_SPACE) {
        space_ran_out(d->space, "the list of truncated logs does not fit");
        if (space_give_ballast(d->space)) /* it makes room */
            rc = truncated_save(d->state, &d->wals->truncated, eb);
    }
    rt_sem_release(&d->wals->truncated_turn);
    return rc;
}

void
durable_mark_persist(struct store *d, bool closing)
{
    struct truncated *r = &d->wals->truncated;
    uint64_t before = r->durable_mark, mark = d->wals->of[STORE_CACHED].durable_mark,
             now = rt_now_ns();
    struct errbuf eb = {0};

    assert(on_owner(d));
    if (mark <= before || (!closing && now < d->wals->durable_mark_due_ns))
        return;
    d->wals->durable_mark_due_ns = now + d->o.durable_mark_interval_ms * 1000000;
    r->durable_mark = mark;
    if (truncated_persist(d, &eb) == ERR_OK)
        return;
    r->durable_mark = before; /* the flusher tries again later */
    LOG(LOG_WARN, "store.durable_mark_not_saved",
        "damage in the last commit batches of the cached log would not be noticed",
        L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("error", eb.text));
}
