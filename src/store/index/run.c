#include "store/index/run.h"

#include <assert.h>
#include <endian.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"
#include "rt/bigmem.h"
#include "store/index/entry.h"
#include "store/index/run_internal.h"
#include "store/record/keys.h"
#include "store/store_entry.h"

#define RUN_BYTES_MAX                                                                    \
    (1u << 30) /* places in a run are 32 bits; the memtable is bounded far below */

#define RUN_BUFFER_BIG   MIB(64) /* of one that gathers: touched as it fills */
#define RUN_BUFFER_WORTH MIB(1)  /* less lies anywhere */

static void
run_buffer_drop(struct run_buffer *s)
{
    uint32_t refs = atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel);

    assert(refs > 0);
    if (refs != 1)
        return;
    if (s->big != NULL)
        bigmem_free(s->big, RUN_BUFFER_BIG);
    else
        buf_fini(&s->buf);
    free(s);
}

static size_t
run_buffer_bytes(const struct run_buffer *s)
{
    return s->big != NULL ? s->buf.len : s->buf.room;
}

struct run *
run_new(void)
{
    struct run *r = xcalloc(1, sizeof *r);

    atomic_init(&r->refs, 1);
    r->run_buffer = xcalloc(1, sizeof *r->run_buffer);
    atomic_init(&r->run_buffer->refs, 1);
    buf_init(&r->run_buffer->buf, RUN_BYTES_MAX);
    return r;
}

struct run *
run_ref(const struct run *r)
{
    struct run *mine =
        (struct run *)(uintptr_t)r; /* the count is not part of what is immutable */

    assert(atomic_load_explicit(&mine->refs, memory_order_relaxed) > 0);
    atomic_fetch_add_explicit(&mine->refs, 1, memory_order_relaxed);
    return mine;
}

void
run_drop(struct run *r)
{
    if (r == NULL || atomic_fetch_sub_explicit(&r->refs, 1, memory_order_acq_rel) != 1)
        return;
    run_buffer_drop(r->run_buffer);
    free(r->items);
    free(r->slots);
    free(r->segments);
    free(r);
}

void
run_free(struct run **rp)
{
    run_drop(*rp);
    *rp = NULL;
}

uint32_t
run_count(const struct run *r)
{
    return r->count;
}

size_t
run_bytes(const struct run *r)
{
    size_t slots = r->slots != NULL ? (size_t)r->slot_mask + 1 : 0;

    return sizeof *r + run_buffer_bytes(r->run_buffer) + r->room * sizeof *r->items +
           slots * sizeof *r->slots + r->segment_count * sizeof *r->segments;
}

const struct run_segment *
run_segments(const struct run *r, uint32_t *count)
{
    *count = r->segment_count;
    return r->segments;
}

static uint64_t
run_change_hash(enum table table, uint64_t bucket, struct span key)
{
    return hash_xxh3(key.at, key.len, bucket * TABLES_ + (uint64_t)table);
}

uint32_t
run_hash(enum table table, uint64_t bucket, struct span key)
{
    return (uint32_t)run_change_hash(table, bucket, key);
}

uint64_t
run_key_hash(uint64_t bucket, struct span key)
{
    return run_change_hash(TABLE_OBJECTS, bucket, key);
}

/* ---- filling ---- */

/* Into memory of huge pages once it is worth them; out of it again where a batch has very many and large changes. */
static void
run_buffer_move(struct run_buffer *s, bool big)
{
    struct buf to;

    assert(big == (s->big == NULL));
    if (big) {
        assert(s->buf.len <= RUN_BUFFER_BIG);
        s->big = bigmem_new(RUN_BUFFER_BIG);
        to = (struct buf){.at = s->big, .room = RUN_BUFFER_BIG, .limit = RUN_BUFFER_BIG};
    } else {
        buf_init(&to, RUN_BYTES_MAX);
    }
    buf_put(&to, s->buf.at, s->buf.len);
    if (big) {
        buf_fini(&s->buf);
    } else {
        bigmem_free(s->big, RUN_BUFFER_BIG);
        s->big = NULL;
    }
    s->buf = to;
}

/* The item is filled in, but for its place; nothing but its bytes is taken. */
static void
keep_bytes(struct run *r, struct item *item, struct span key, struct span value)
{
    struct buf *b = &r->run_buffer->buf;

    if (r->run_buffer->big != NULL && key.len + value.len > RUN_BUFFER_BIG - b->len)
        run_buffer_move(r->run_buffer, false);
    assert(key.len == item->key_len && value.len == item->value_len);
    item->at = (uint32_t)b->len;
    if (key.at + key.len == value.at) {
        buf_put(b, key.at, key.len + value.len);
    } else {
        buf_put_span(b, key);
        buf_put_span(b, value);
    }
    assert(!b->full);
    r->bytes = b->at;
}

static struct item *
next_item(struct run *r)
{
    if (r->count == r->room) {
        r->room = r->room == 0 ? 16 : 2 * r->room;
        r->items = xrealloc(r->items, r->room * sizeof *r->items);
    }
    assert(r->count < r->room);
    return &r->items[r->count++];
}

static struct item
item_of(const struct entry_key *where, uint32_t hash, struct span value)
{
    assert(where->table < TABLES_);
    assert(where->key.len <= UINT16_MAX && value.len <= UINT16_MAX);
    return (struct item){
        .bucket = where->bucket,
        .hash = hash,
        .key_len = (uint16_t)where->key.len,
        .value_len = (uint16_t)value.len,
        .table = (uint8_t)where->table,
    };
}

static void
run_add_hashed(struct run *r, const struct entry_key *where, uint32_t hash,
               struct span value)
{
    struct item *item;

    assert(!r->finished && !r->gathers);
    item = next_item(r);
    *item = item_of(where, hash, value);
    keep_bytes(r, item, where->key, value);
}

static void
run_add_change(struct run *r, const struct entry_key *where, struct span value)
{
    run_add_hashed(r, where, run_hash(where->table, where->bucket, where->key), value);
}

void
run_object_coded(struct run *r, uint64_t bucket, struct span key, uint64_t hash,
                 struct span value)
{
    struct entry_key where = {TABLE_OBJECTS, bucket, key};

    run_add_hashed(r, &where, (uint32_t)hash, value);
}

void
run_object_hashed(struct run *r, uint64_t bucket, struct span key, uint64_t hash,
                  const struct entry *entry)
{
    struct entry_key where = {TABLE_OBJECTS, bucket, key};
    unsigned char value[ENTRY_CODED_MAX];
    size_t len = entry_encode(&where, entry, value);

    run_add_hashed(r, &where, (uint32_t)hash, (struct span){(char *)value, len});
}

void
run_object(struct run *r, uint64_t bucket, struct span key, const struct entry *entry)
{
    run_object_hashed(r, bucket, key, run_key_hash(bucket, key), entry);
}

void
run_upload(struct run *r, uint64_t bucket, struct span key, const struct upload_id *id,
           const struct upload_entry *u)
{
    unsigned char coded[KEY_UPLOAD_MAX], value[ENTRY_CODED_MAX];
    struct entry_key where = {
        TABLE_UPLOADS, bucket, {(char *)coded, key_upload(key, id, coded)}};

    run_add_change(r, &where,
                   (struct span){(char *)value,
                                 u != NULL ? upload_entry_encode(&where, u, value) : 0});
}

void
run_version(struct run *r, uint64_t bucket, struct span key, const struct version *born,
            const struct entry *entry)
{
    unsigned char coded[KEY_UPLOAD_MAX], value[ENTRY_CODED_MAX];
    struct entry_key where = {
        TABLE_VERSIONS, bucket, {(char *)coded, key_version(key, born, coded)}};

    run_add_change(r, &where,
                   (struct span){(char *)value,
                                 entry != NULL ? entry_encode(&where, entry, value) : 0});
}

void
run_part(struct run *r, const struct upload_id *id, uint32_t number,
         const struct part_entry *p)
{
    unsigned char coded[KEY_PART_BYTES], value[VALUE_CODED_MAX];
    struct entry_key where = {TABLE_PARTS, 0, {(char *)coded, sizeof coded}};

    key_part(id, number, coded);
    run_add_change(r, &where,
                   (struct span){(char *)value,
                                 p != NULL ? part_entry_encode(&where, p, value) : 0});
}

void
run_done(struct run *r, const struct upload_id *id, const struct done_entry *d)
{
    unsigned char value[VALUE_CODED_MAX];
    struct entry_key where = {
        TABLE_DONE, 0, {(const char *)id->id.bytes, sizeof id->id.bytes}};

    run_add_change(r, &where,
                   (struct span){(char *)value, done_entry_encode(&where, d, value)});
}

void
run_prepared(struct run *r, const struct content_id *content,
             const struct prepared_entry *p)
{
    unsigned char value[VALUE_CODED_MAX];
    struct entry_key where = {
        TABLE_PREPARED, 0, {(const char *)content->bytes, sizeof content->bytes}};

    run_add_change(
        r, &where,
        (struct span){(char *)value,
                      p != NULL ? prepared_entry_encode(&where, p, value) : 0});
}

void
run_segment(struct run *r, enum store_class class, uint32_t segment, int64_t living,
            int64_t dead)
{
    struct run_segment *s;
    uint32_t i = 0;

    assert(!r->finished);
    assert(class < STORE_CLASSES_);
    while (i < r->segment_count &&
           (r->segments[i].class != class || r->segments[i].segment != segment))
        i++;
    if (i == r->segment_count) {
        r->segments = xrealloc(r->segments, (i + 1) * sizeof *s);
        r->segments[r->segment_count++] =
            (struct run_segment){.class = class, .segment = segment};
    }
    s = &r->segments[i];
    s->living += living;
    s->dead += dead;
}

void
run_add_segments(struct run *r, const struct run *from)
{
    for (uint32_t i = 0; i < from->segment_count; i++)
        run_segment(r, from->segments[i].class, from->segments[i].segment,
                    from->segments[i].living, from->segments[i].dead);
}

/* ---- order ---- */

#define INSERT_MOST 64u

/* An item on its way to its place. */
struct sorted {
    uint64_t first;
    uint32_t item;
};

static int
compare_items(const void *ap, const void *bp, void *arg)
{
    const struct run *r = arg;
    const struct sorted *x = ap, *y = bp;
    const struct item *a = &r->items[x->item], *b = &r->items[y->item];
    int c;

    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    c = item_compare_place((enum table)a->table, a->bucket, item_key(r, a),
                           (enum table)b->table, b->bucket, item_key(r, b));
    return c != 0 ? c : (a->at > b->at) - (a->at < b->at);
}

/* How many bytes all keys begin with; SIZE_MAX: the items are of several tables or buckets. */
static size_t
common_of(const struct run *r)
{
    const struct item *one = &r->items[0];
    size_t common = one->key_len;

    for (uint32_t i = 1; i < r->count; i++) {
        const struct item *it = &r->items[i];

        if (it->table != one->table || it->bucket != one->bucket)
            return SIZE_MAX;
        common = common_part(item_key(r, one), item_key(r, it), common);
    }
    return common;
}

/* A batch has some thirty: each goes to its place among those before it. */
static void
insert_all(const struct run *r, struct sorted *order)
{
    for (uint32_t i = 1; i < r->count; i++) {
        struct sorted s = order[i];
        uint32_t low = 0, high = i;

        while (low < high) {
            uint32_t mid = (low + high) / 2;

            if (s.first < order[mid].first ||
                (s.first == order[mid].first &&
                 compare_items(&s, &order[mid], (void *)(uintptr_t)r) < 0))
                high = mid;
            else
                low = mid + 1;
        }
        memmove(&order[low + 1], &order[low], (i - low) * sizeof s);
        order[low] = s;
    }
}

/* By their numbers alone: one pass for each byte in which they differ, the lowest first. Returns where they are then. */
#define DIGITS 8u
static struct sorted *
run_sort_numbers(struct sorted *a, struct sorted *b, uint32_t count)
{
    uint32_t(*seen)[256] = xcalloc(DIGITS, sizeof *seen);

    for (uint32_t i = 0; i < count; i++)
        for (unsigned d = 0; d < DIGITS; d++)
            seen[d][a[i].first >> 8 * d & 255]++;
    for (unsigned d = 0; d < DIGITS; d++) {
        uint32_t *of = seen[d], sum = 0;
        struct sorted *from = a;

        if (of[a[0].first >> 8 * d & 255] == count)
            continue;
        for (unsigned v = 0; v < 256; v++) {
            uint32_t here = of[v];

            of[v] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < count; i++)
            b[of[from[i].first >> 8 * d & 255]++] = from[i];
        a = b;
        b = from;
    }
    free(seen);
    return a;
}

#define SORT_NUMBERS_LEAST 2048u /* fewer are compared */

/* Those of one number are compared as a whole. */
static void
run_sort_equal(const struct run *r, struct sorted *s, uint32_t count)
{
    for (uint32_t from = 0, to; from < count; from = to) {
        to = from + 1;
        while (to < count && s[to].first == s[from].first)
            to++;
        if (to - from > 1)
            qsort_r(&s[from], to - from, sizeof *s, compare_items, (void *)(uintptr_t)r);
    }
}

/* The items in order, a copy; at least one. */
static struct item *
items_in_order(const struct run *r)
{
    struct sorted few[INSERT_MOST];
    bool many = r->count >= SORT_NUMBERS_LEAST;
    struct sorted *order = r->count <= INSERT_MOST
                               ? few
                               : xmalloc((many ? 2 : 1) * r->count * sizeof *order);
    struct sorted *sorted = order;
    struct item *items = xmalloc(r->count * sizeof *items);
    size_t skip = common_of(r);

    for (uint32_t i = 0; i < r->count; i++)
        order[i] = (struct sorted){
            skip == SIZE_MAX ? 0 : bytes_behind(item_key(r, &r->items[i]), skip), i};
    assert(r->count > 0);
    assert(order != few || r->count <= INSERT_MOST);
    if (order == few) {
        insert_all(r, order);
    } else if (many) {
        sorted = run_sort_numbers(order, order + r->count, r->count);
        run_sort_equal(r, sorted, r->count);
    } else {
        qsort_r(order, r->count, sizeof *order, compare_items, (void *)(uintptr_t)r);
    }
    for (uint32_t i = 0; i < r->count; i++)
        items[i] = r->items[sorted[i].item];
    if (order != few)
        free(order);
    return items;
}

static void
run_sort(struct run *r)
{
    struct item *items = items_in_order(r);

    free(r->items);
    r->items = items;
    r->room = r->count;
}

/* Sorted items, equal keys beside each other, oldest first: keeps the newest of each. */
static void
keep_newest(struct run *r)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < r->count; i++) {
        struct item *last = kept > 0 ? &r->items[kept - 1] : NULL;
        struct item *it = &r->items[i];

        if (last == NULL || last->table != it->table || last->bucket != it->bucket ||
            !span_eq(item_key(r, last), item_key(r, it)))
            r->items[kept++] = *it;
        else if (entry_is_newer((enum table)it->table, item_value(r, last),
                                item_value(r, it)))
            *last = *it;
    }
    assert(kept <= r->count && (kept > 0) == (r->count > 0));
    r->count = kept;
}

/* Of so many slots at least. */
void
run_build_slots(struct run *r, uint32_t least)
{
    uint32_t slots = 4;

    while (slots < least)
        slots *= 2;
    free(r->slots);
    r->slots = xcalloc(slots, sizeof *r->slots);
    r->slot_mask = slots - 1;
    assert(slots > r->count); /* a search ends at a free slot */
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t at = r->items[i].hash & r->slot_mask;

        while (r->slots[at] != 0)
            at = (at + 1) & r->slot_mask;
        r->slots[at] = i + 1;
    }
}

void
run_finish(struct run *r)
{
    assert(!r->finished && !r->gathers);
    if (r->count > 1) {
        run_sort(r);
        keep_newest(r);
    }
    run_build_slots(r, 2 * r->count);
    r->finished = true;
    assert(r->count <= r->room);
}

static struct item *
find_item(const struct run *r, uint32_t hash, enum table table, uint64_t bucket,
          struct span key)
{
    for (uint32_t at = hash & r->slot_mask; r->slots[at] != 0;
         at = (at + 1) & r->slot_mask) {
        struct item *i = &r->items[r->slots[at] - 1];

        if (i->hash == hash && i->table == (uint8_t)table && i->bucket == bucket &&
            span_eq(item_key(r, i), key))
            return i;
    }
    return NULL;
}

bool
run_find(const struct run *r, uint32_t hash, enum table table, uint64_t bucket,
         struct span key, struct span *value)
{
    const struct item *i;

    assert(r->finished || r->gathers);
    i = find_item(r, hash, table, bucket, key);
    if (i != NULL)
        *value = item_value(r, i);
    return i != NULL;
}

bool
run_object_hash(const struct run *r, uint32_t *from, uint32_t *hash)
{
    while (*from < r->count && r->items[*from].table != TABLE_OBJECTS)
        ++*from;
    if (*from >= r->count)
        return false;
    *hash = r->items[*from].hash;
    return true;
}

/* ---- one that gathers ---- */

#define GATHER_SLOTS 4096u

struct run *
run_gather(void)
{
    struct run *r = run_new();

    r->gathers = true;
    run_build_slots(r, GATHER_SLOTS);
    return r;
}

/* A key that it does not have. */
static void
gather_new(struct run *r, const struct item *like, struct span key, struct span value)
{
    struct item *item = next_item(r);
    uint32_t at = like->hash & r->slot_mask;

    *item = *like;
    if (r->run_buffer->big == NULL && r->run_buffer->buf.len > RUN_BUFFER_WORTH &&
        r->run_buffer->buf.len < RUN_BUFFER_BIG / 2)
        run_buffer_move(r->run_buffer, true);
    keep_bytes(r, item, key, value);
    if (2 * r->count > r->slot_mask) {
        run_build_slots(r, 4 * r->count);
        return;
    }
    while (r->slots[at] != 0)
        at = (at + 1) & r->slot_mask;
    r->slots[at] = r->count;
    assert(r->gathers && !r->finished);
    assert(2 * r->count <= r->slot_mask);
}

void
run_gather_expect(const struct run *r, uint64_t hash)
{
    __builtin_prefetch(&r->slots[(uint32_t)hash & r->slot_mask]);
}

void
run_gather_new(struct run *r, uint64_t bucket, struct span key, uint64_t hash,
               struct span value)
{
    struct entry_key where = {TABLE_OBJECTS, bucket, key};
    struct item item = item_of(&where, (uint32_t)hash, value);

    assert(r->gathers);
    gather_new(r, &item, key, value);
}

/* What `from` has of one key, in the order in which it came. */
static void
gather_item(struct run *r, const struct run *from, const struct item *i)
{
    struct span key = item_key(from, i), value = item_value(from, i);
    struct item *had = find_item(r, i->hash, (enum table)i->table, i->bucket, key);

    if (had == NULL) {
        gather_new(r, i, key, value);
    } else if (entry_is_newer((enum table)i->table, item_value(r, had), value)) {
        *had = *i;
        keep_bytes(r, had, key, value);
    }
}

void
run_gather_all(struct run *r, const struct run *from)
{
    assert(r->gathers && !from->finished);
    for (uint32_t i = 0; i < from->count; i++)
        gather_item(r, from, &from->items[i]);
    run_add_segments(r, from);
}

bool
run_is_finished(const struct run *r)
{
    return r->finished;
}

struct run *
run_in_order(const struct run *from)
{
    struct run *r = xcalloc(1, sizeof *r);

    assert(from->gathers);
    atomic_init(&r->refs, 1);
    atomic_fetch_add_explicit(&from->run_buffer->refs, 1, memory_order_relaxed);
    r->run_buffer = from->run_buffer;
    r->bytes = from->bytes;
    r->count = r->room = from->count;
    if (r->count > 0)
        r->items = items_in_order(from);
    run_add_segments(r, from);
    run_build_slots(r, 2 * r->count);
    r->finished = true;
    return r;
}
