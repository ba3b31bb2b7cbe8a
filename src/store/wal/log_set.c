#include "store/wal/log_set.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cursor.h"
#include "base/log.h"
#include "store/core/core.h"
#include "store/record/format.h"
#include "store/segment/segment.h"
#include "store/segment/space.h"
#include "store/wal/wal.h"
#include "wire/record.h"

#define LOG_SET_KIND    35
#define LOG_SET_VERSION 1
#define ENTRY_BYTES     28u /* segment 4, first batch 8, begun 16 */
#define FILE_MAX_BYTES  (LOG_SET_MAX * ENTRY_BYTES + 4096u)

enum {
    FIELD_SET_NATIVE = 1,
    FIELD_SET_CACHED,
    FIELD_SET_GENERATION,
    FIELD_SET_FLAGS,
    FIELD_SET_BOUND
};
#define FLAG_WAS_MISSING 1u
#define FLAG_IN_DOUBT    2u
static_assert(FIELD_SET_CACHED == FIELD_SET_NATIVE + STORE_CACHED,
              "a list for each class");

void
log_set_init(struct log_set *s)
{
    *s = (struct log_set){0};
    rt_sem_init(&s->turn, 1);
}

void
log_set_fini(struct log_set *s)
{
    free(s->at);
    s->at = NULL;
    s->count = s->room = 0;
}

void
log_set_check(const struct log_set *s)
{
    assert(s->count <= s->room);
    assert((s->at != NULL) == (s->room > 0));
    assert(!s->in_doubt || s->was_missing);
    for (uint32_t i = 0; i < s->count; i++) {
        assert(s->at[i].class < STORE_CLASSES_);
        assert(s->at[i].segment != 0);
        assert(s->at[i].first_batch != 0);
        assert(!s->at[i].missing || s->generation > 0);
    }
}

/* By class, then first batch; of two logs with the same first batch the one with the higher id counts. */
static bool
entry_is_behind(const struct log_set_entry *a, const struct log_set_entry *b)
{
    if (a->class != b->class)
        return a->class > b->class;
    if (a->first_batch != b->first_batch)
        return a->first_batch > b->first_batch;
    return a->segment > b->segment;
}

static void
set_insert(struct log_set *s, const struct log_set_entry *e)
{
    uint32_t i = s->count;

    assert(e->segment != 0);
    if (s->count == s->room) {
        s->room = s->room == 0 ? 16 : 2 * s->room;
        s->at = xrealloc(s->at, s->room * sizeof *s->at);
    }
    for (; i > 0 && entry_is_behind(&s->at[i - 1], e); i--)
        s->at[i] = s->at[i - 1];
    s->at[i] = *e;
    s->count++;
}

static void
set_remove_at(struct log_set *s, uint32_t i)
{
    assert(i < s->count);
    memmove(&s->at[i], &s->at[i + 1], (s->count - i - 1) * sizeof *s->at);
    s->count--;
}

static struct log_set_entry *
set_find(const struct log_set *s, enum store_class class, uint32_t segment)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->at[i].class == class && s->at[i].segment == segment)
            return &s->at[i];
    }
    return NULL;
}

/* ---- bytes ---- */

static void
put_entries(struct record_writer *w, const struct log_set *s, enum store_class class)
{
    char *bytes = xmalloc(s->count * ENTRY_BYTES + 1), *at = bytes;

    for (uint32_t i = 0; i < s->count; i++) {
        const struct log_set_entry *e = &s->at[i];

        if (e->class != class)
            continue;
        format_put_be(at, e->segment, 4);
        format_put_be(at + 4, e->first_batch, 8);
        format_put_be(at + 12, e->begun.epoch, 8);
        format_put_be(at + 20, e->begun.counter, 8);
        at += ENTRY_BYTES;
    }
    if (at != bytes)
        record_put_span(w, (uint8_t)(FIELD_SET_NATIVE + class),
                        (struct span){bytes, (size_t)(at - bytes)});
    free(bytes);
}

void
log_set_encode(const struct log_set *s, struct buf *out)
{
    uint64_t flags =
        (s->was_missing ? FLAG_WAS_MISSING : 0u) | (s->in_doubt ? FLAG_IN_DOUBT : 0u);
    struct record_writer w;
    char bound[16];

    log_set_check(s);
    record_begin(&w, out, LOG_SET_KIND, LOG_SET_VERSION);
    for (unsigned c = 0; c < STORE_CLASSES_; c++)
        put_entries(&w, s, (enum store_class)c);
    record_put_u64(&w, FIELD_SET_GENERATION, s->generation);
    if (flags != 0)
        record_put_u64(&w, FIELD_SET_FLAGS, flags);
    format_put_be(bound, s->bound.epoch, 8);
    format_put_be(bound + 8, s->bound.counter, 8);
    if (s->in_doubt)
        record_put_span(&w, FIELD_SET_BOUND, (struct span){bound, sizeof bound});
    record_end(&w);
}

static bool
take_entries(struct log_set *s, enum store_class class, struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);
    uint64_t before = 0;

    if (value.len == 0 || value.len % ENTRY_BYTES != 0 ||
        value.len / ENTRY_BYTES > LOG_SET_MAX)
        return false;
    while (cursor_left(&c) > 0) {
        struct log_set_entry e = {.class = class};

        e.segment = (uint32_t)take_be(&c, 4);
        e.first_batch = take_be(&c, 8);
        e.begun.epoch = take_be(&c, 8);
        e.begun.counter = take_be(&c, 8);
        if (e.segment == 0 || e.first_batch == 0 || e.first_batch < before ||
            set_find(s, class, e.segment) != NULL)
            return false;
        before = e.first_batch;
        set_insert(s, &e);
    }
    return true;
}

static bool
take_bound(struct log_set *s, struct span value)
{
    struct cursor c = cursor_of(value.at, value.len);

    s->bound.epoch = take_be(&c, 8);
    s->bound.counter = take_be(&c, 8);
    return !c.bad && cursor_left(&c) == 0;
}

enum err
log_set_decode(struct span bytes, struct log_set *out, struct errbuf *eb)
{
    struct record record;
    struct span value;
    uint64_t flags = 0;
    uint8_t id;
    bool good = true;
    enum err rc = record_open(bytes, &record, eb);

    log_set_init(out);
    if (rc != ERR_OK)
        return rc;
    if (record.kind != LOG_SET_KIND || record.len != bytes.len)
        return err_set(eb, ERR_CORRUPT, "no list of logs");
    if (record.version != LOG_SET_VERSION)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "the list of logs has version %u, this program reads %u",
                       record.version, LOG_SET_VERSION);
    while (good && record_next(&record, &id, &value)) {
        if (id == FIELD_SET_NATIVE || id == FIELD_SET_CACHED)
            good = take_entries(out, (enum store_class)(id - FIELD_SET_NATIVE), value);
        else if (id == FIELD_SET_GENERATION)
            good = record_u64(value, &out->generation) == ERR_OK;
        else if (id == FIELD_SET_FLAGS)
            good = record_u64(value, &flags) == ERR_OK;
        else if (id == FIELD_SET_BOUND)
            good = take_bound(out, value);
    }
    out->was_missing = (flags & FLAG_WAS_MISSING) != 0;
    out->in_doubt = (flags & FLAG_IN_DOUBT) != 0;
    if (good && out->generation > 0 && (out->was_missing || !out->in_doubt))
        return ERR_OK;
    log_set_fini(out);
    log_set_init(out);
    return err_set(eb, ERR_CORRUPT, "the list of logs is malformed");
}

/* ---- the files ---- */

static enum err
log_set_load_one(struct rt_dir *state, const char *name, struct log_set *out,
                 struct errbuf *eb)
{
    char *bytes = NULL;
    size_t len = 0;
    enum err rc = rt_file_load(state, name, FILE_MAX_BYTES, &bytes, &len, eb);

    log_set_init(out);
    if (rc == ERR_OK)
        rc = log_set_decode((struct span){bytes, len}, out, eb);
    free(bytes);
    if (rc == ERR_TOO_LARGE)
        rc = ERR_CORRUPT;
    if (rc == ERR_CORRUPT)
        LOG(LOG_ERROR, "store.log_set_damaged", "a list of logs is damaged",
            L_TEXT("folder", rt_dir_path(state)), L_TEXT("file", name),
            L_TEXT("error", eb != NULL ? eb->text : ""));
    return rc;
}

enum err
log_set_load(struct rt_dir *state, struct log_set *out, struct errbuf *eb)
{
    struct log_set twin;
    enum err rc = log_set_load_one(state, LOG_SET_FILE, out, eb),
             twin_rc = log_set_load_one(state, LOG_SET_FILE2, &twin, NULL);

    if (twin_rc == ERR_OK && (rc != ERR_OK || twin.generation > out->generation)) {
        log_set_fini(out);
        *out = twin;
        rt_sem_init(&out->turn, 1);
        return ERR_OK;
    }
    log_set_fini(&twin);
    if (rc == ERR_NOT_FOUND || rc == ERR_CORRUPT) {
        err_forget(eb);
        rc = ERR_OK;
    }
    return rc;
}

static enum err
save_both(struct rt_dir *state, const struct log_set *s, struct errbuf *eb)
{
    struct buf bytes;
    enum err rc;

    buf_init(&bytes, FILE_MAX_BYTES);
    log_set_encode(s, &bytes);
    rc = bytes.full ? err_set(eb, ERR_INTERNAL, "more than %u logs", LOG_SET_MAX)
                    : rt_file_store(state, LOG_SET_FILE, bytes.at, bytes.len, 0600, eb);
    if (rc == ERR_OK)
        rc = rt_file_store(state, LOG_SET_FILE2, bytes.at, bytes.len, 0600, eb);
    buf_fini(&bytes);
    return rc;
}

enum err
log_set_persist(struct store *d, struct errbuf *eb)
{
    struct log_set *s = &d->wals->set;
    enum err rc = rt_sem_acquire(&s->turn, DEADLINE_NEVER);

    assert(on_owner(d));
    assert(!d->read_only);
    if (rc != ERR_OK)
        return err_set(eb, rc, "the list of logs was not written: %s", err_name(rc));
    s->generation++;
    s->dirty = false;
    rc = save_both(d->state, s, eb);
    if (rc == ERR_NO_SPACE) {
        space_ran_out(d->space, "the list of logs does not fit");
        if (space_give_ballast(d->space))
            rc = save_both(d->state, s, eb);
    }
    rt_sem_release(&s->turn);
    return rc;
}

/* ---- changes ---- */

static struct log_set_entry
log_set_entry_of(struct store *d, const struct segment *s)
{
    return (struct log_set_entry){.class = s->class,
                                  .segment = s->id,
                                  .first_batch = s->first_batch,
                                  .begun = version_latest(d)};
}

enum err
log_set_add(struct store *d, const struct segment *s, struct errbuf *eb)
{
    struct log_set *set = &d->wals->set;
    struct log_set_entry e = log_set_entry_of(d, s),
                         *old = set_find(set, s->class, s->id);

    assert(s->kind == SEGMENT_LOG);
    assert(s->first_batch > 0);
    if (old != NULL) /* the file was used before */
        set_remove_at(set, (uint32_t)(old - set->at));
    set_insert(set, &e);
    return log_set_persist(d, eb);
}

enum err
log_set_remove(struct store *d, enum store_class class, uint32_t segment,
               struct errbuf *eb)
{
    struct log_set *set = &d->wals->set;
    struct log_set_entry *e = set_find(set, class, segment), was;
    enum err rc;

    if (e == NULL)
        return ERR_OK;
    was = *e;
    set_remove_at(set, (uint32_t)(e - set->at));
    rc = log_set_persist(d, eb);
    if (rc != ERR_OK) /* the log stays */
        set_insert(set, &was);
    return rc;
}

/* ---- a start ---- */

static bool
log_is_there(struct store *d, const struct log_set_entry *e)
{
    struct segment *s = segment_pin(d, e->segment);
    bool there =
        s != NULL && s->kind == SEGMENT_LOG && s->class == e->class &&
        (s->first_batch == e->first_batch || (s->owner.headless && s->first_batch > 0));

    segment_drop(&s);
    return there;
}

uint32_t
log_set_match(struct store *d, bool *cached)
{
    struct log_set *s = &d->wals->set;

    *cached = false;
    for (uint32_t i = 0; i < s->count; i++) {
        s->at[i].missing = !log_is_there(d, &s->at[i]);
        *cached |= s->at[i].missing && s->at[i].class == STORE_CACHED;
    }
    log_set_check(s);
    return log_set_missing(s);
}

bool
log_set_update(struct store *d)
{
    struct log_set *s = &d->wals->set;
    bool changed = s->generation == 0 || s->dirty;

    for (uint32_t i = s->count; i-- > 0;) {
        bool gone = !log_is_there(d, &s->at[i]) &&
                    (!s->at[i].missing || s->at[i].class == STORE_CACHED);

        changed |= gone;
        if (gone)
            set_remove_at(s, i);
    }
    for (unsigned c = 0; c < STORE_CLASSES_; c++) {
        LIST_EACH(&d->segments->of_class[c], n)
        {
            struct segment *log = LIST_ENTRY(n, struct segment, owner.of_class);
            struct log_set_entry e = log_set_entry_of(d, log);

            if (log->kind != SEGMENT_LOG || log->first_batch == 0 ||
                set_find(s, log->class, log->id) != NULL)
                continue;
            set_insert(s, &e);
            changed = true;
        }
    }
    return changed;
}

void
log_set_forget_missing(struct log_set *s)
{
    for (uint32_t i = s->count; i-- > 0;) {
        if (s->at[i].missing)
            set_remove_at(s, i);
    }
    s->was_missing = s->in_doubt = false;
    s->dirty = true;
}

void
log_set_forget_class(struct log_set *s, enum store_class class)
{
    assert(class < STORE_CLASSES_);
    for (uint32_t i = s->count; i-- > 0;) {
        if (s->at[i].class == class)
            set_remove_at(s, i);
    }
    s->dirty = true;
}

uint32_t
log_set_missing(const struct log_set *s)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->count; i++)
        count += s->at[i].missing && s->at[i].class == STORE_NATIVE;
    return count;
}

void
log_set_name_missing(const struct log_set *s, char *out, size_t room)
{
    uint32_t count = log_set_missing(s), i = 0;
    char name[SEGMENT_NAME_ROOM];

    assert(count > 0);
    while (!s->at[i].missing || s->at[i].class != STORE_NATIVE)
        i++;
    segment_name(SEGMENT_LOG, s->at[i].segment, name);
    if (count == 1)
        (void)snprintf(out, room, "native/%s is missing", name);
    else
        (void)snprintf(out, room, "native/%s and %" PRIu32 " more logs are missing", name,
                       count - 1);
}

/* The native log behind entry i; NULL: it is the last one. */
static const struct log_set_entry *
entry_behind(const struct log_set *s, uint32_t i)
{
    for (uint32_t k = i + 1; k < s->count; k++) {
        if (s->at[k].class == STORE_NATIVE && s->at[k].first_batch > s->at[i].first_batch)
            return &s->at[k];
    }
    return NULL;
}

bool
log_set_uncovered(const struct log_set *s, uint64_t covered, uint64_t durable,
                  struct version *bound)
{
    bool open = false;

    *bound = (struct version){0};
    for (uint32_t i = 0; i < s->count; i++) {
        const struct log_set_entry *e = &s->at[i], *next;

        if (!e->missing || e->class != STORE_NATIVE)
            continue;
        next = entry_behind(s, i);
        if (next != NULL ? covered + 1 >= next->first_batch
                         : durable > 0 && covered >= durable)
            continue;
        open = true;
        *bound = next != NULL ? next->begun : (struct version){UINT64_MAX, UINT64_MAX};
    }
    return open;
}
