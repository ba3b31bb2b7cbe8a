#include "disk/retired.h"

#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/record.h"

#define RETIRED_KIND    34
#define RETIRED_VERSION 1
#define RANGE_BYTES     16u
/* There are no more ranges than logs, or power cuts while the oldest of them was there. */
#define RANGES_MAX 16384u
#define FILE_MAX   (RETIRED_LISTS * RANGES_MAX * RANGE_BYTES + 256)

enum field {
    FIELD_NATIVE = 1,
    FIELD_CACHED,
    FIELD_CUT,
    FIELD_RELIED,
    FIELD_PROMISED,
    FIELD_DAMAGED
};

void
retired_fini(struct retired *r)
{
    for (unsigned i = 0; i < RETIRED_LISTS; i++)
        free(r->of[i].at);
    *r = (struct retired){0};
}

static bool
covers(const struct retired *r, unsigned list, uint64_t first, uint64_t last)
{
    for (uint32_t i = 0; i < r->of[list].count; i++) {
        const struct retired_range *at = &r->of[list].at[i];

        if (at->first <= first && last <= at->last)
            return true;
    }
    return false;
}

bool
retired_covers(const struct retired *r, enum disk_class class, uint64_t first,
               uint64_t last)
{
    return covers(r, class, first, last);
}

bool
retired_covers_cut(const struct retired *r, uint64_t first, uint64_t last)
{
    return covers(r, RETIRED_CUT, first, last);
}

uint64_t
retired_behind(const struct retired *r, enum disk_class class, uint64_t group)
{
    for (uint32_t i = 0; i < r->of[class].count; i++) {
        if (r->of[class].at[i].first > group)
            return r->of[class].at[i].first;
    }
    return 0;
}

static void
insert(struct retired *r, unsigned list, uint32_t i, struct retired_range range)
{
    struct retired_range *at;

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
drop(struct retired *r, unsigned list, uint32_t i, uint32_t count)
{
    struct retired_range *at = r->of[list].at;

    memmove(&at[i], &at[i + count], (r->of[list].count - i - count) * sizeof *at);
    r->of[list].count -= count;
}

static void
add(struct retired *r, unsigned list, uint64_t first, uint64_t last)
{
    struct retired_range range = {first, last};
    uint32_t i = 0, touched = 0;

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
        drop(r, list, i, touched);
    insert(r, list, i, range);
}

void
retired_add(struct retired *r, enum disk_class class, uint64_t first, uint64_t last)
{
    add(r, class, first, last);
}

void
retired_add_cut(struct retired *r, uint64_t first, uint64_t last)
{
    add(r, RETIRED_CUT, first, last);
}

bool
retired_hole_before(const struct retired *r, uint64_t group)
{
    return (r->damaged != 0 && r->damaged <= group) ||
           (r->of[RETIRED_CUT].count > 0 && r->of[RETIRED_CUT].at[0].first <= group);
}

uint64_t
retired_there(const struct retired *r)
{
    return MAX(r->relied, r->promised);
}

static void
forget(struct retired *r, unsigned list, uint64_t oldest)
{
    uint32_t n = 0;

    while (n < r->of[list].count && r->of[list].at[n].last < oldest)
        n++;
    if (n > 0)
        drop(r, list, 0, n);
}

void
retired_forget(struct retired *r, enum disk_class class, uint64_t oldest)
{
    forget(r, class, oldest);
    if (class == DISK_CACHED)
        forget(r, RETIRED_CUT, oldest);
    if (class == DISK_CACHED && r->damaged < oldest)
        r->damaged = 0;
}

/* ---- bytes ---- */

static void
put_ranges(struct record_writer *w, const struct retired *r, unsigned list)
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
retired_encode(const struct retired *r, struct buf *out)
{
    struct record_writer w;

    record_begin(&w, out, RETIRED_KIND, RETIRED_VERSION);
    for (unsigned i = 0; i < RETIRED_LISTS; i++)
        put_ranges(&w, r, i);
    if (r->relied != 0)
        record_put_u64(&w, FIELD_RELIED, r->relied);
    if (r->promised != 0)
        record_put_u64(&w, FIELD_PROMISED, r->promised);
    if (r->damaged != 0)
        record_put_u64(&w, FIELD_DAMAGED, r->damaged);
    record_end(&w);
}

static bool
take_ranges(struct retired *r, unsigned list, struct span value)
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
        insert(r, list, r->of[list].count, (struct retired_range){first, last});
        before = last;
    }
    return true;
}

enum err
retired_decode(struct span bytes, struct retired *out, struct errbuf *eb)
{
    struct record record;
    struct span value;
    uint8_t id;
    enum err rc = record_open(bytes, &record, eb);
    bool good = true;

    *out = (struct retired){0};
    if (rc != ERR_OK)
        return rc;
    if (record.kind != RETIRED_KIND || record.len != bytes.len)
        return err_set(eb, ERR_CORRUPT, "no list of retired logs");
    if (record.version != RETIRED_VERSION)
        return err_set(eb, ERR_NOT_BUILT,
                       "the list of retired logs has version %u, this program reads %u",
                       record.version, RETIRED_VERSION);
    while (good && record_next(&record, &id, &value)) {
        if (id >= FIELD_NATIVE && id <= FIELD_CUT)
            good = take_ranges(out, id - FIELD_NATIVE, value);
        else if (id == FIELD_RELIED)
            good = record_u64(value, &out->relied) == ERR_OK;
        else if (id == FIELD_PROMISED)
            good = record_u64(value, &out->promised) == ERR_OK;
        else if (id == FIELD_DAMAGED)
            good = record_u64(value, &out->damaged) == ERR_OK;
    }
    if (good)
        return ERR_OK;
    retired_fini(out);
    return err_set(eb, ERR_CORRUPT, "the list of retired logs is malformed");
}

/* ---- the file ---- */

enum err
retired_load(struct rt_dir *state, struct retired *out, struct errbuf *eb)
{
    char *bytes = NULL;
    size_t len = 0;
    enum err rc = rt_file_load(state, RETIRED_FILE, FILE_MAX, &bytes, &len, eb);

    *out = (struct retired){0};
    if (rc == ERR_NOT_FOUND)
        return ERR_OK;
    if (rc == ERR_OK)
        rc = retired_decode((struct span){bytes, len}, out, eb);
    free(bytes);
    if (rc == ERR_CORRUPT || rc == ERR_TOO_LARGE) {
        LOG(LOG_ERROR, "disk.retired_damaged",
            "gaps that compaction left between logs will look like damage",
            L_TEXT("folder", rt_dir_path(state)),
            L_TEXT("error", eb != NULL ? eb->text : ""));
        rc = ERR_OK;
    }
    return rc;
}

enum err
retired_save(struct rt_dir *state, const struct retired *r, struct errbuf *eb)
{
    struct buf bytes;
    enum err rc;

    buf_init(&bytes, FILE_MAX);
    retired_encode(r, &bytes);
    rc = bytes.full ? err_set(eb, ERR_INTERNAL, "more than %u ranges of retired logs",
                              RANGES_MAX)
                    : rt_file_store(state, RETIRED_FILE, bytes.at, bytes.len, 0600, eb);
    buf_fini(&bytes);
    return rc;
}
