/* versions_life: the keys of two buckets with versions, one with one copy and one with two, in the lives of disks_life.h. The
 * ledger is one of births: each version that was asked for, in that order, with its id as soon as an answer or a listing told
 * it; each that was ended; each tag that was set.
 *
 * What is held against it: every version that is there is listed once, in order, with its id, bytes and tags; what was
 * ended by its id or replaced as the null version is not there; the newest is the current one. What came to no answer is there or not,
 * and stays as it was first seen.
 */
#pragma once
#include "sim/disks_life.h"

#include "disks/internal.h"

#define BIRTHS_KEYS 6 /* of each worker the same number */
#define BIRTHS_MAX  10
#define GONE_KEPT   8
#define TAGS_MAYBE  4
#define PAGE_TOP    64u /* versions of all keys of a bucket */

enum birth_state {
    BIRTH_SENT, /* no answer, and not seen yet */
    BIRTH_THERE,
    BIRTH_ENDING /* its end was asked for, and came to no answer */
};

struct birth {
    uint64_t write, size; /* `write` is also its mtime, where it is no marker */
    uint64_t by; /* BIRTH_ENDING: the write of the null version that replaces it */
    uint64_t tag, maybe[TAGS_MAYBE];
    unsigned maybe_count;
    enum birth_state state;
    bool marker, null, known; /* known: has an id */
    struct version id;
    bool seen;
};
struct birth_key {
    char name[16];
    struct birth at[BIRTHS_MAX]; /* the oldest first */
    unsigned count;
    struct version gone[GONE_KEPT]; /* the latest that ended */
    uint64_t gone_count;
};
struct births {
    struct birth_key keys[BIRTHS_KEYS];
};

static inline void
births_init(struct births *l)
{
    *l = (struct births){0};
    for (unsigned i = 0; i < BIRTHS_KEYS; i++)
        snprintf(l->keys[i].name, sizeof l->keys[i].name, "v/%02u", i);
}

static inline unsigned
birth_copies(const struct life *f, const struct birth_key *k)
{
    return (k - ((struct births *)f->kept)->keys) % 2 == 1 && f->disks > 1 ? 2 : 1;
}

static inline struct disks_key
birth_key_of(const struct life *f, const struct birth_key *k)
{
    return (struct disks_key){
        .at = {.bucket = BUCKET + (uint64_t)((k - ((struct births *)f->kept)->keys) % 2),
               .immutable_name = SPAN("bucket"),
               .key = span_of(k->name)},
        .copies = birth_copies(f, k)};
}

/* Bodies are those of the other ledger: they say key and write. */
static inline struct ledger_key
body_key(const struct birth_key *k)
{
    struct ledger_key as = {0};

    memcpy(as.name, k->name, sizeof k->name);
    return as;
}

static inline bool
same_id(const struct version *a, const struct version *b)
{
    return a->epoch == b->epoch && a->counter == b->counter;
}

static inline void
birth_drop(struct birth_key *k, unsigned i)
{
    if (k->at[i].known)
        k->gone[k->gone_count++ % GONE_KEPT] = k->at[i].id;
    k->count--;
    memmove(k->at + i, k->at + i + 1, (k->count - i) * sizeof k->at[0]);
}

static inline struct birth *
birth_by_write(struct birth_key *k, uint64_t write)
{
    for (unsigned i = 0; i < k->count; i++)
        if (k->at[i].write == write)
            return &k->at[i];
    return NULL;
}

/* ---- deeds ---- */

static inline struct birth *
birth_sent(struct birth_key *k, struct birth b)
{
    for (unsigned i = 0; b.null && i < k->count; i++) {
        if (k->at[i].null && k->at[i].state == BIRTH_THERE) {
            k->at[i].state = BIRTH_ENDING;
            k->at[i].by = b.write;
        }
    }
    k->at[k->count] = b;
    return &k->at[k->count++];
}

static inline void
birth_answered(struct birth_key *k, uint64_t write, enum err rc,
               const struct entry *entry)
{
    struct birth *b = birth_by_write(k, write);

    if (rc != ERR_OK)
        return;
    b->state = BIRTH_THERE;
    b->known = true;
    b->id = entry_born(entry);
    for (unsigned i = k->count; b->null && i-- > 0;)
        if (k->at[i].null && k->at[i].write != write)
            birth_drop(k, i); /* of unknown outcome too: it came before, so it ended */
}

/* It was never asked for. */
static inline void
birth_unsent(struct birth_key *k, uint64_t write)
{
    for (unsigned i = 0; i < k->count; i++) {
        if (k->at[i].state == BIRTH_ENDING && k->at[i].by == write) {
            k->at[i].state = BIRTH_THERE;
            k->at[i].by = 0;
        }
    }
    k->count--;
}

static inline enum err
do_version(struct life *f, struct birth_key *k, char *body)
{
    struct birth b = {.write = ++f->ledger->writes,
                      .size = random_size(),
                      .null = sim_random() % 6 == 0};
    struct disks_key key = birth_key_of(f, k);
    struct ledger_key as = body_key(k);
    struct object_meta meta = {.mtime_ms = (int64_t)b.write,
                               .versioning = b.null ? STORE_SUSPENDED : STORE_VERSIONED};
    struct disks_writer *w;
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc;

    birth_sent(k, b);
    rc = disks_write_begin(f->set, &key, STORE_NATIVE, b.size, &w, &eb);
    if (rc != ERR_OK) {
        birth_unsent(k, b.write);
        return rc;
    }
    rc = write_body(f, w, body, &as, b.write, 0, b.size, &eb);
    if (rc != ERR_OK) {
        disks_write_abort(&w);
        birth_unsent(k, b.write);
        return rc;
    }
    rc = disks_commit(&w, &meta, NULL, &entry, &eb);
    birth_answered(k, b.write, rc, &entry);
    return rc;
}

static inline enum err
do_marker(struct life *f, struct birth_key *k)
{
    struct birth b = {
        .write = ++f->ledger->writes, .marker = true, .null = sim_random() % 6 == 0};
    struct disks_key key = birth_key_of(f, k);
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc;

    birth_sent(k, b);
    rc = disks_delete_mark(f->set, &key, b.null ? STORE_SUSPENDED : STORE_VERSIONED, NULL,
                           &entry, &eb);
    birth_answered(k, b.write, rc, &entry);
    return rc;
}

/* One whose id is known; the newest twice as often as any other. NULL: there is none. */
static inline struct birth *
choose_birth(struct birth_key *k, bool object)
{
    unsigned first = (unsigned)(sim_random() % (k->count + 1));

    for (unsigned n = 0; n < k->count; n++) {
        unsigned i = (first >= k->count ? 2 * k->count - 1 - n : first + n) % k->count;
        struct birth *b = &k->at[i];

        if (b->known && b->by == 0 &&
            (!object || (!b->marker && b->state == BIRTH_THERE)))
            return b;
    }
    return NULL;
}

static inline enum err
do_end(struct life *f, struct birth_key *k)
{
    struct birth *b = choose_birth(k, false);
    struct disks_key key = birth_key_of(f, k);
    struct errbuf eb = {0};
    struct version id;
    struct entry was;
    bool sure;
    enum err rc;

    if (b == NULL)
        return ERR_OK;
    id = b->id;
    sure = b->state == BIRTH_THERE && !f->disturbed;
    b->state = BIRTH_ENDING;
    rc = disks_version_delete(f->set, &key, &id, NULL, &was, &eb);
    if (sure && rc == ERR_NOT_FOUND)
        CHECK_STR(eb.text, "the end of a version that is there");
    if (rc != ERR_OK && rc != ERR_NOT_FOUND)
        return rc;
    for (unsigned i = 0; i < k->count; i++)
        if (k->at[i].known && same_id(&k->at[i].id, &id)) {
            birth_drop(k, i);
            break;
        }
    return ERR_OK;
}

static inline enum err
do_tag(struct life *f, struct birth_key *k)
{
    struct birth *b = choose_birth(k, true);
    struct disks_key key = birth_key_of(f, k);
    struct object_meta meta = {0};
    struct errbuf eb = {0};
    struct entry entry;
    char text[32];
    bool sure;
    enum err rc;

    if (b == NULL || b->maybe_count == TAGS_MAYBE)
        return ERR_OK;
    sure = !f->disturbed;
    b->maybe[b->maybe_count++] = ++f->ledger->writes;
    snprintf(text, sizeof text, "t=%" PRIu64, b->maybe[b->maybe_count - 1]);
    meta.mtime_ms = (int64_t)b->write;
    meta.tags = span_of(text);
    rc = disks_set_meta(f->set, &key, &b->id, &meta, NULL, &entry, &eb);
    if (rc == ERR_OK) {
        b->tag = b->maybe[b->maybe_count - 1];
        b->maybe_count = 0;
    } else if (rc == ERR_NOT_FOUND && sure) {
        CHECK_STR(eb.text, "a tag of a version that is there");
    }
    return rc;
}

/* ---- checking ---- */

/* What each disk has of the key, to stderr. */
static inline void
show_disks(struct life *f, const struct birth_key *k)
{
    struct disks_key key = birth_key_of(f, k);

    fprintf(stderr, "key %s, %sconverged:", k->name,
            atomic_load(&f->set->converged) ? "" : "not ");
    for (unsigned i = 0; i < atomic_load(&f->set->slot_count); i++) {
        struct replica *d = replica_enter(f->set, i);
        struct arena *a = arena_new(4096, 1 << 20);
        struct store_version *v;
        uint32_t n = 0;
        bool more;

        if (replica_version_list(d, key.at.bucket, key.at.key, true, NULL, PAGE_TOP, a,
                                 &v, &n, &more, NULL) != ERR_OK)
            n = 0;
        for (uint32_t j = 0; j < n && span_eq(v[j].key, key.at.key); j++)
            fprintf(stderr, " [%u] %" PRIu64 ".%" PRIu64 " as %" PRIu64 ".%" PRIu64, i,
                    entry_born(&v[j].entry).epoch, entry_born(&v[j].entry).counter,
                    v[j].entry.version.epoch, v[j].entry.version.counter);
        replica_leave(d);
        arena_free(&a);
    }
    fprintf(stderr, "\n");
}

static inline void
births_complain(struct life *f, const struct birth_key *k, const char *what,
                const struct store_version *found, unsigned count, unsigned at)
{
    fprintf(stderr, "key %s: %s; found, the newest first:", k->name, what);
    for (unsigned i = 0; i < count; i++)
        fprintf(stderr, "%s %" PRIu64 ".%" PRIu64 "%s%s of %" PRIu64,
                i == at ? " [here]" : "", entry_born(&found[i].entry).epoch,
                entry_born(&found[i].entry).counter,
                (found[i].entry.flags & ENTRY_MARKER) != 0 ? " marker" : "",
                entry_is_null_version(&found[i].entry) ? " null" : "",
                (uint64_t)found[i].entry.mtime_ms);
    fprintf(stderr, "; known:");
    for (unsigned i = k->count; i-- > 0;)
        fprintf(stderr, " %" PRIu64 ".%" PRIu64 "%s%s of %" PRIu64 " %s",
                k->at[i].id.epoch, k->at[i].id.counter, k->at[i].marker ? " marker" : "",
                k->at[i].null ? " null" : "", k->at[i].write,
                k->at[i].state == BIRTH_THERE  ? "there"
                : k->at[i].state == BIRTH_SENT ? "sent"
                                               : "ending");
    fprintf(stderr, "\n");
    show_disks(f, k);
    CHECK_STR(what, "as the ledger says");
}

static inline bool
is_birth(const struct birth_key *k, const struct birth *b, const struct entry *entry)
{
    struct version id = entry_born(entry);

    if (((entry->flags & ENTRY_MARKER) != 0) != b->marker ||
        entry_is_null_version(entry) != b->null)
        return false;
    if (b->known)
        return same_id(&id, &b->id);
    if (!b->marker)
        return (uint64_t)entry->mtime_ms == b->write && entry->size == b->size;
    for (unsigned i = 0; i < k->count; i++)
        if (k->at[i].known && same_id(&id, &k->at[i].id))
            return false;
    for (unsigned i = 0; i < GONE_KEPT; i++)
        if (same_id(&id, &k->gone[i]))
            return false;
    return true;
}

/* What was seen becomes what is known. */
static inline void
births_seen(struct life *f, struct birth_key *k)
{
    for (unsigned i = k->count; i-- > 0;) {
        struct birth *b = &k->at[i];

        if (b->seen && (b->state == BIRTH_SENT || !f->disturbed)) {
            b->state = BIRTH_THERE;
            b->by = 0;
        } else if (!b->seen && (b->state == BIRTH_ENDING || !f->disturbed)) {
            birth_drop(k, i);
        }
    }
}

/* The versions of one key, the newest first, as they were listed. */
static inline void
births_match(struct life *f, struct birth_key *k, const struct store_version *found,
             unsigned count)
{
    unsigned at = 0, nulls = 0;

    for (unsigned i = k->count; i-- > 0;) {
        struct birth *b = &k->at[i];

        b->seen = at < count && is_birth(k, b, &found[at].entry);
        if (b->seen) {
            b->known = true;
            b->id = entry_born(&found[at].entry);
            at++;
        } else if (b->state == BIRTH_THERE) {
            births_complain(f, k, "a version is missing", found, count, at);
        }
    }
    if (at < count)
        births_complain(f, k, "a version that should not be there", found, count, at);
    for (unsigned i = 0; i < count; i++) {
        nulls += entry_is_null_version(&found[i].entry);
        if (found[i].latest != (i == 0))
            births_complain(f, k, "the newest is not the latest", found, count, i);
    }
    if (nulls > 1)
        births_complain(f, k, "two null versions", found, count, 0);
    for (unsigned i = 0; i < k->count; i++) {
        const struct birth *b = &k->at[i];
        const struct birth *by = b->by != 0 ? birth_by_write(k, b->by) : NULL;

        if (by != NULL && !b->seen && !by->seen)
            births_complain(f, k, "neither the null version nor what replaces it", found,
                            count, i);
    }
    births_seen(f, k);
}

static inline bool
is_tag(const struct birth *b, struct span tags)
{
    char text[32];

    for (unsigned i = 0; i <= b->maybe_count; i++) {
        uint64_t tag = i == 0 ? b->tag : b->maybe[i - 1];

        snprintf(text, sizeof text, "t=%" PRIu64, tag);
        if (tag == 0 ? tags.len == 0 : span_is(tags, text))
            return true;
    }
    return false;
}

/* By its id: the entry, the bytes, the tags. */
static inline void
check_birth(struct life *f, struct birth_key *k, const struct birth *b)
{
    bool newest = b == &k->at[k->count - 1], sure = true;
    struct disks_key key = birth_key_of(f, k);
    struct ledger_key as = body_key(k);
    struct arena *a = arena_new(4096, 1 << 20);
    struct object_meta meta;
    struct errbuf eb = {0};
    struct entry entry;
    bool current;
    enum err rc = disks_version_find(f->set, &key, &b->id, &entry, &current, &eb);

    for (unsigned i = 0; i < k->count; i++)
        sure = sure && k->at[i].state == BIRTH_THERE;
    if (rc == ERR_OK)
        CHECK((!sure || current == newest) &&
              ((entry.flags & ENTRY_MARKER) != 0) == b->marker);
    if (rc == ERR_OK && !b->marker) {
        CHECK_U64(entry.size, b->size);
        CHECK_U64((uint64_t)entry.mtime_ms, b->write);
        rc = disks_meta(f->set, &key, &entry, a, &meta, &eb);
        if (rc == ERR_OK)
            CHECK(is_tag(b, meta.tags));
    }
    if (rc == ERR_OK && !b->marker)
        check_body(f, &as, &key, &entry);
    if (rc != ERR_OK && !is_excused_of(f, key.copies, rc)) {
        fprintf(stderr, "key %s, version %" PRIu64 ".%" PRIu64 ": %s\n", k->name,
                b->id.epoch, b->id.counter, eb.text);
        CHECK_STR(err_name(rc), "a version that is there");
    }
    arena_free(&a);
}

static inline void
check_gone(struct life *f, struct birth_key *k)
{
    struct disks_key key = birth_key_of(f, k);

    for (unsigned i = 0; i < GONE_KEPT && i < k->gone_count; i++) {
        struct errbuf eb = {0};
        struct entry entry;
        bool current;
        enum err rc =
            disks_version_find(f->set, &key, &k->gone[i], &entry, &current, &eb);

        if (rc != ERR_NOT_FOUND && (rc == ERR_OK || !is_excused_of(f, key.copies, rc))) {
            fprintf(stderr, "key %s, version %" PRIu64 ".%" PRIu64 " was ended: %s %s\n",
                    k->name, k->gone[i].epoch, k->gone[i].counter, err_name(rc), eb.text);
            CHECK(rc == ERR_NOT_FOUND);
        }
    }
}

/* What a GET without an id gives. */
static inline void
check_current(struct life *f, struct birth_key *k)
{
    const struct birth *newest = k->count > 0 ? &k->at[k->count - 1] : NULL;
    struct disks_key key = birth_key_of(f, k);
    struct errbuf eb = {0};
    struct entry entry;
    enum err rc = disks_lookup(f->set, &key, &entry, &eb), want;

    if (newest != NULL && newest->state != BIRTH_THERE)
        return;
    want = newest == NULL || newest->marker ? ERR_NOT_FOUND : ERR_OK;
    if (rc == ERR_OK && want == ERR_OK) {
        struct version id = entry_born(&entry);

        CHECK(same_id(&id, &newest->id));
    }
    if (rc != want &&
        (rc == ERR_OK || rc == ERR_NOT_FOUND || !is_excused_of(f, key.copies, rc))) {
        fprintf(stderr, "key %s: %s %s\n", k->name, err_name(rc), eb.text);
        show_disks(f, k);
        CHECK_STR(err_name(rc), err_name(want));
    }
}

/* All versions of one key, page by page. False: no answer. */
static inline bool
list_births(struct life *f, const struct birth_key *k, struct arena *a,
            struct store_version *out, unsigned *count)
{
    struct disks_key key = birth_key_of(f, k);
    uint32_t page = 1 + (uint32_t)(sim_random() % 6);
    struct version after;
    bool more = true;

    *count = 0;
    while (more && *count < PAGE_TOP) {
        struct store_version *found;
        struct errbuf eb = {0};
        uint32_t n;
        enum err rc = disks_version_list(f->set, key.at.bucket, key.copies, key.at.key,
                                         *count == 0, *count > 0 ? &after : NULL, page, a,
                                         &found, &n, &more, &eb);

        if (rc != ERR_OK) {
            if (!is_excused_of(f, 1, rc))
                CHECK_STR(eb.text, "a listing of versions");
            return false;
        }
        if (n == 0 && more) {
            CHECK_STR("an empty page that has more behind it", "a listing of versions");
            return false;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (!span_eq(found[i].key, key.at.key))
                return true;
            if (*count < PAGE_TOP)
                out[(*count)++] = found[i];
            after = entry_born(&found[i].entry);
        }
    }
    return true;
}

static inline bool
check_births(struct life *f, struct birth_key *k, bool all)
{
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_version *found = arena_alloc(a, PAGE_TOP * sizeof *found);
    unsigned count;
    bool complete = list_births(f, k, a, found, &count) && !rt_cancelled();

    if (complete) {
        births_match(f, k, found, count);
        check_current(f, k);
        for (unsigned i = 0; i < k->count && !rt_cancelled(); i++)
            if (k->at[i].state == BIRTH_THERE && (all || sim_random() % k->count == 0))
                check_birth(f, k, &k->at[i]);
        check_gone(f, k);
    }
    arena_free(&a);
    return !rt_cancelled() && (complete || f->disturbed);
}

/* The listing of objects: the keys whose newest version is none but an object. */
static inline void
check_objects(struct life *f, unsigned bucket)
{
    struct births *l = f->kept;
    struct arena *a = arena_new(4096, 1 << 20);
    struct store_entry *entries;
    struct errbuf eb = {0};
    uint32_t count, at = 0;
    bool more;
    enum err rc = disks_list(f->set, BUCKET + bucket, bucket + 1, SPAN(""), false, 1000,
                             a, &entries, &count, &more, &eb);

    for (unsigned i = bucket; rc == ERR_OK && i < BIRTHS_KEYS; i += 2) {
        struct birth_key *k = &l->keys[i];
        bool listed = at < count && span_is(entries[at].key, k->name);
        bool lives_on = k->count > 0 && !k->at[k->count - 1].marker;

        if (listed != lives_on)
            fprintf(stderr, "key %s: %slisted\n", k->name, listed ? "" : "not ");
        CHECK(listed == lives_on);
        at += listed;
    }
    if (rc == ERR_OK)
        CHECK_U64(at, count);
    else if (!rt_cancelled() && rc != ERR_CANCELLED)
        CHECK_STR(eb.text, "a listing");
    arena_free(&a);
}

static inline bool
births_look(struct life *f)
{
    struct births *l = f->kept;

    for (unsigned i = 0; i < BIRTHS_KEYS; i++)
        if (!check_births(f, &l->keys[i], true))
            return false;
    for (unsigned bucket = 0; bucket < 2 && !f->disturbed; bucket++)
        check_objects(f, bucket);
    return !rt_cancelled();
}

static inline enum err
births_deed(struct life *f, unsigned worker, char *body)
{
    struct births *l = f->kept;
    struct birth_key *k =
        &l->keys[worker + WORKERS * (sim_random() % (BIRTHS_KEYS / WORKERS))];
    uint64_t what = sim_random() % 14;

    if (k->count == BIRTHS_MAX)
        return do_end(f, k);
    if (what < 6)
        return do_version(f, k, body);
    if (what < 7)
        return do_marker(f, k);
    if (what < 10)
        return do_end(f, k);
    if (what < 12)
        return do_tag(f, k);
    return check_births(f, k, false) ? ERR_OK : ERR_CANCELLED;
}

static const struct life_kind births_kind = {births_deed, births_look};
