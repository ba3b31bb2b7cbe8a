/* What was ended stays so when the log with its record is compacted away while older ones are there, and the index is made
 * again from what is left: null versions, delete markers with and without an id, deletes before versioning was on. Metadata that
 * changed stay with what is not ended. A copy that went from this disk does not come back either, and one that came back stays. And what is ended between the compactor's look and its commit. Protects D6 and V7.
 */
#include "store/core/core.h"
#include "store/gc/compactor.h"
#include "store/gc/relocate.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_read.h"
#include "store/store_replica.h"
#include "store/store_version.h"
#include "store/store_write.h"
#include "store/wal/commit.h"
#include "store/wal/wal.h"
#include "world_damage.h"
#include "world_wal.h"

#define FILLER (200u << 10) /* five of these fill a log */
#define BODY   "the body of a version"

static char *filler;

/* ---- one log after the other ---- */

static uint32_t
log_now(const struct store *d)
{
    return d->wals->of[STORE_NATIVE].now->id;
}

/* Writes what lives on until the next log is begun; returns the one before. */
static uint32_t
fill_log(struct store *d)
{
    static unsigned number;
    uint32_t was = log_now(d);

    while (log_now(d) == was) {
        char key[32];
        struct entry entry;

        snprintf(key, sizeof key, "filler-%u", number++);
        if (world_put(d, key, filler, FILLER, &entry) != ERR_OK)
            abort();
    }
    return was;
}

static struct segment *
log_of(struct store *d, uint32_t id)
{
    LIST_EACH(&d->segments->of_class[STORE_NATIVE], n)
    {
        struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

        if (s->kind == SEGMENT_LOG && s->id == id && s->first_batch != 0)
            return s;
    }
    return NULL;
}

static void
compact_log(struct store *d, uint32_t id)
{
    struct errbuf eb = {0};

    REQUIRE(store_flush(d, &eb) == ERR_OK && log_of(d, id) != NULL);
    world_compact_log(d, segment_ref(log_of(d, id)));
    CHECK(log_of(d, id) == NULL);
}

/* Checked, then opened with an index that is rebuilt. */
static void
reopen(struct store **dp)
{
    store_close(dp);
    world_check_sound();
    world_lose_index();
    *dp = world_open_small_logs();
}

/* ---- deeds ---- */

static struct store_key
the_key(void)
{
    return world_key(7, "the key");
}

static void
put(struct store *d, enum store_versioning versioning, struct version *id)
{
    struct store_key k = the_key();
    struct object_meta meta = {.mtime_ms = 1700000000123,
                               .versioning = (uint8_t)versioning};
    struct store_writer *w;
    struct errbuf eb = {0};
    struct entry entry;

    REQUIRE(store_write_begin(d, &k, STORE_NATIVE, strlen(BODY), &w, &eb) == ERR_OK);
    REQUIRE(store_write(w, BODY, strlen(BODY), &eb) == ERR_OK);
    REQUIRE(store_commit(&w, &meta, NULL, &entry, &eb) == ERR_OK);
    *id = entry_born(&entry);
}

static void
mark(struct store *d, enum store_versioning versioning, struct version *id)
{
    struct store_key k = the_key();
    struct errbuf eb = {0};
    struct entry entry = {0};

    REQUIRE(store_delete_mark(d, &k, versioning, NULL, NULL, &entry, &eb) == ERR_OK);
    *id = entry_born(&entry);
}

static void
erase(struct store *d)
{
    struct store_key k = the_key();
    struct errbuf eb = {0};
    bool existed;

    CHECK(store_delete(d, &k, STORE_NATIVE, NULL, &existed, &eb) == ERR_OK && existed);
}

static void
tag(struct store *d, const struct version *id)
{
    struct store_key k = the_key();
    struct object_meta meta = {.mtime_ms = 1700000000123, .tags = SPAN("a=b")};
    struct errbuf eb = {0};

    CHECK(store_set_meta(d, &k, id, &meta, NULL, NULL, NULL, &eb) == ERR_OK);
}

/* As a program wrote it that did not say whether it was the null version. */
static void
end_tersely(struct store *d, const struct version *id)
{
    struct store_key k = the_key();
    struct errbuf eb = {0};
    struct commit c = {
        .kind = LOG_RECORD_VERSION_DELETE, .key = &k, .of.version.which = id};

    REQUIRE(commit_submit(d, STORE_NATIVE, &c, &eb) == ERR_OK);
}

/* This disk's copy goes, others keep theirs. */
static void
forget(struct store *d, struct entry *was)
{
    struct store_key k = the_key();
    struct errbuf eb = {0};

    REQUIRE(store_lookup(d, &k, was, &eb) == ERR_OK);
    CHECK(store_drop_replica(d, &k, &was->version, &eb) == ERR_OK);
}

/* The same of a version of a key that has some: the newest. */
static void
take_away(struct store *d, struct entry *was)
{
    struct store_key k = the_key();
    struct errbuf eb = {0};
    struct version id;

    REQUIRE(store_lookup(d, &k, was, &eb) == ERR_OK);
    id = entry_born(was);
    CHECK(store_version_delete(d, &k, &id, NULL, NULL, NULL, NULL, &eb) == ERR_OK);
}

/* And comes back from one of them, as the same version. */
static void
bring_back(struct store *d, const struct entry *was)
{
    struct store_key k = the_key();
    struct object_meta meta = {
        .mtime_ms = 1700000000123,
        .versioning = (was->flags & ENTRY_VERSIONED) != 0   ? STORE_VERSIONED
                      : (was->flags & ENTRY_SUSPENDED) != 0 ? STORE_SUSPENDED
                                                            : STORE_UNVERSIONED};
    struct store_writer *w;
    struct errbuf eb = {0};

    REQUIRE(store_write_begin_as(d, &k, strlen(BODY), &was->content, &w, &eb) == ERR_OK);
    REQUIRE(store_write(w, BODY, strlen(BODY), &eb) == ERR_OK);
    REQUIRE(store_commit_replica(&w, &meta, was, &eb) == ERR_OK);
}

struct made {
    struct version ids[10]; /* from 1 */
    uint32_t logs[10];
    unsigned count, full;
    struct entry forgotten;
};

/* One deed a letter:
 *     p n v   a put without versioning, of the null version, of a version with an id
 *     d N V   a delete, a null delete marker, one with an id
 *     1...9   ends the version that the deed of this number made, from 1
 *     t       the same of the latest, by a record without VERSIONING
 *     m       metadata of the latest changes
 *     f g b   this disk's copy goes, of a key with versions that of the newest; comes back
 *     |       the next log begins
 *     c       the second log is compacted */
static void
do_deeds(struct store *d, struct made *m, const char *deeds)
{
    struct store_key k = the_key();
    struct errbuf eb = {0};

    for (; *deeds != '\0'; deeds++) {
        struct version *id = &m->ids[m->count + 1];

        REQUIRE(m->count < 9 && m->full < 9);
        switch (*deeds) {
        case 'p':
        case 'n':
        case 'v':
            put(d,
                *deeds == 'p'   ? STORE_UNVERSIONED
                : *deeds == 'n' ? STORE_SUSPENDED
                                : STORE_VERSIONED,
                id);
            m->count++;
            break;
        case 'N':
        case 'V':
            mark(d, *deeds == 'N' ? STORE_SUSPENDED : STORE_VERSIONED, id);
            m->count++;
            break;
        case 'd':
            erase(d);
            m->count++;
            break;
        case 't':
            end_tersely(d, &m->ids[m->count]);
            break;
        case 'm':
            tag(d, &m->ids[m->count]);
            break;
        case 'f':
            forget(d, &m->forgotten);
            break;
        case 'g':
            take_away(d, &m->forgotten);
            break;
        case 'b':
            bring_back(d, &m->forgotten);
            break;
        case '|':
            m->logs[m->full++] = fill_log(d);
            break;
        case 'c':
            compact_log(d, m->logs[1]);
            break;
        default:
            CHECK(store_version_delete(d, &k, &m->ids[*deeds - '0'], NULL, NULL, NULL,
                                       NULL, &eb) == ERR_OK);
        }
    }
}

static bool
is_tagged(struct store *d, const struct entry *entry, struct arena *a)
{
    struct store_key k = the_key();
    struct object_meta meta = {0};
    struct errbuf eb = {0};

    if ((entry->flags & ENTRY_MARKER) == 0)
        CHECK(store_meta(d, &k, entry, a, &meta, &eb) == ERR_OK);
    return meta.tags.len > 0;
}

/* The versions of the key, newest first, by the letters above; m: the one before it has changed metadata. */
static void
versions(struct store *d, char *out, size_t room)
{
    struct arena *a = arena_new(KIB(64), MIB(16));
    struct store_version *page;
    struct errbuf eb = {0};
    uint32_t count;
    bool more;
    size_t len = 0;

    REQUIRE(store_version_list(d, 7, SPAN("the key"), true, NULL, 100, a, &page, &count,
                               &more, &eb) == ERR_OK);
    for (uint32_t i = 0; i < count && len + 2 < room; i++) {
        bool marker = (page[i].entry.flags & ENTRY_MARKER) != 0;
        bool null = entry_is_null_version(&page[i].entry);

        out[len++] = marker ? (null ? 'N' : 'V') : null ? 'n' : 'v';
        if (is_tagged(d, &page[i].entry, a))
            out[len++] = 'm';
    }
    out[len] = '\0';
    arena_free(&a);
}

/* ---- what was ended stays so ---- */

static const struct {
    const char *deeds, *want;
} cases[] = {
    /* Markers. The older log has what they were put upon. */
    {"v|V|2|c", "v"},
    {"v|V|v|2c", "vv"},
    {"n|N|2|c", ""},
    {"vn|N|3|c", "v"},
    {"n|Nv|2|c", "v"},
    {"n|N|n|3|c", ""},
    {"n|N|N|3|c", ""},
    {"n|N|t|c", ""},
    {"vn|N|t|c", "v"},
    {"n|N|N|c", "N"},
    {"v|V|v|3c", "Vv"},
    {"vV|v|3|c", "Vv"},
    {"n|N|v|3c", "N"},
    /* Null versions. */
    {"n|n|2|c", ""},
    {"vn|n|3|c", "v"},
    {"n|nv|2|c", "v"},
    {"p|p|v2|c", "v"},
    {"p|p|n3|c", ""},
    {"n|n|n|c", "n"},
    {"v|v|2|c", "v"},
    /* Metadata of a version that was the current one for a while, at a replay too. */
    {"v|mv|v3|c", "vvm"},
    {"v|vmv3|c", "vmv"},
    /* Deletes that knew of no versions. */
    {"p|d|v|c", "v"},
    {"p|d|p|v|c", "vn"},
    {"p|d|p|v3|c", "v"},
    {"p|d|V|c", "V"},
    {"p|d|n|3|c", ""},
    {"p|d||c", ""},
    /* Copies that went from this disk. */
    {"p|f|c", ""},
    {"p|p|f|c", ""},
    {"p|pf|c", ""},
    {"p|f|b|c", "n"},
    {"p|pf|b|c", "n"},
    {"p|pfb|c", "n"},
    {"p|pf|p|c", "n"},
    {"v|g|b|c", "v"},
    {"v|vg|b|c", "vv"},
    {"v|vgb|c", "vv"},
    {"n|g|b|c", "n"},
    {"n|ng|b|c", "n"},
    {"vn|ng|b|c", "nv"},
    {"n|ng|vb|c", "vn"},
};

static void
run_case(void *arg)
{
    unsigned i = *(unsigned *)arg;
    char before[16], after[16];
    struct made made = {0};
    struct store *d = world_open_small_logs();

    fprintf(stderr, "case %s\n", cases[i].deeds);
    do_deeds(d, &made, cases[i].deeds);
    versions(d, before, sizeof before);
    reopen(&d);
    versions(d, after, sizeof after);
    CHECK_STR(before, cases[i].want);
    CHECK_STR(after, cases[i].want);
    store_close(&d);
}

static void
test_what_was_ended_does_not_come_back(void)
{
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++)
        world_run(run_case, &i);
}

/* ---- between the look and the commit ---- */

static const struct {
    enum log_record_kind kind; /* of the record in the second log */
    const char *deeds, *then, *want;
} late[] = {
    {LOG_RECORD_DELETE, "v|V|", "2", "v"}, {LOG_RECORD_DELETE, "n|N|", "2", ""},
    {LOG_RECORD_DELETE, "n|N|", "n", "n"}, {LOG_RECORD_DELETE, "p|d|", "v", "v"},
    {LOG_RECORD_DELETE, "p|d|", "n", "n"}, {LOG_RECORD_PUT, "n|n|", "2", ""},
    {LOG_RECORD_PUT, "n|n|", "N", "N"},
};

/* The log_record of the log that is about the key; its spans lie in the window of the scan. */
static struct log_record
member_in(struct store *d, struct segment *s, struct wal_scan *scan,
          enum log_record_kind kind)
{
    struct scan_source source = {.file = s->file,
                                 .segment = s->id,
                                 .generation = s->generation,
                                 .size = s->owner.size,
                                 .cluster_sum = d->cluster_sum};
    struct errbuf eb = {0};

    wal_scan_begin(scan, &source, STORE_ALIGN, s->first_batch, 0);
    while (wal_scan_next(scan, &eb) == SCAN_BATCH)
        for (uint32_t i = 0; i < scan->count; i++)
            if (scan->records[i].kind == kind &&
                span_eq(scan->records[i].key, the_key().key))
                return scan->records[i];
    abort();
}

static void
run_late(void *arg)
{
    unsigned i = *(unsigned *)arg;
    struct store *d = world_open_small_logs();
    struct arena *a = arena_new(KIB(4), MIB(1));
    struct segment *s;
    struct wal_scan scan;
    struct log_record m;
    struct relocation seen;
    struct store_key key;
    struct commit c;
    struct errbuf eb = {0};
    struct made made = {0};
    char after[16];

    fprintf(stderr, "late %s %s\n", late[i].deeds, late[i].then);
    do_deeds(d, &made, late[i].deeds);
    REQUIRE(log_of(d, made.logs[1]) != NULL);
    s = segment_ref(log_of(d, made.logs[1]));
    m = member_in(d, s, &scan, late[i].kind);
    CHECK(relocate_classify(d, STORE_NATIVE, &m, false, &seen, &eb) == ERR_OK);
    CHECK(seen.what != RELOCATE_DROP && seen.what != RELOCATE_STUCK);
    do_deeds(d, &made, late[i].then);
    REQUIRE(relocate_commit(&seen, a, &key, &c, &eb) == ERR_OK);
    commit_start(d, STORE_NATIVE, &c);
    CHECK(commit_wait(&c, &eb) == ERR_PRECONDITION);
    wal_scan_end(&scan);
    segment_drop(&s);
    arena_free(&a);
    fill_log(d);
    compact_log(d, made.logs[1]);
    reopen(&d);
    versions(d, after, sizeof after);
    CHECK_STR(after, late[i].want);
    store_close(&d);
}

static void
test_what_ends_after_the_look_is_not_relocated(void)
{
    for (unsigned i = 0; i < ARRAY_LEN(late); i++)
        world_run(run_late, &i);
}

int
main(void)
{
    log_set_level(LOG_WARN);
    filler = xmalloc(FILLER);
    world_fill(filler, FILLER, 3);
    RUN(test_what_was_ended_does_not_come_back);
    RUN(test_what_ends_after_the_look_is_not_relocated);
    free(filler);
    return check_done();
}
