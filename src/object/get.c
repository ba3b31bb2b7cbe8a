/* get: reads an object from the disk, from a fetch in flight, or from the backend. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "object/chunk_read.h"
#include "object/proof.h"
#include "object/readahead.h"
#include "object/revalidate.h"
#include "object/tier.h"
#include "rt/fiber.h"
#include "rt/file.h"
#include "wire/etag.h"

enum kind { LOCAL, FETCHED, DIRECT, CHUNKED };

struct object_get {
    struct object_service *s;
    const struct map_bucket *bucket; /* one reference */
    struct span key;                 /* in the arena */
    enum kind kind;
    struct entry entry;          /* LOCAL */
    struct disks_reader reader;  /* LOCAL, once the range is chosen */
    struct fetch_reader *fetch;  /* FETCHED */
    struct cloud_get *remote;    /* DIRECT */
    struct chunked *chunked;     /* CHUNKED; in the arena */
    struct chunk_reader *chunks; /* CHUNKED, once the range is chosen; owned */
    struct arena *arena;         /* borrowed */
    struct span etag;            /* DIRECT: the version that the reader was promised */
    struct iobuf *buf;           /* FETCHED, DIRECT */
    struct object_info *told; /* FETCHED, DIRECT: what the backend says; in the arena */
    struct proof *
        proof; /* the bytes of a remote are compared as this reader gets them; in the arena */
    bool
        whole_first; /* a range of a small object: all of it is read to `buf` and proved */
    const char *unverified; /* why they are not compared; NULL: they are */
    uint64_t size;
    uint64_t at, left; /* of the range */
    bool chosen;
    struct pace *prefetch; /* borrowed, set by a prefetch; NULL: an ordinary reader */
    bool counted;          /* among the readers that wait for a backend */
    unsigned label;        /* of M_CACHE_BYTES */
    enum object_source source;
};

enum { LABEL_HIT, LABEL_MISS, LABEL_BYPASS, LABEL_COALESCED, LABEL_NONE };

/* What holds between two calls of a reader. */
static void
object_get_check(const struct object_get *g)
{
    assert(g->at <= g->size);
    assert(g->left <= g->size - g->at);
    assert(g->kind != FETCHED || g->fetch != NULL || g->left == 0);
    assert(g->kind != CHUNKED || g->chunked != NULL);
    assert(g->kind != CHUNKED || !g->chosen || g->chunks != NULL || g->size == 0 ||
           g->left == 0);
    assert(g->fetch == NULL || g->bucket->cached);
    assert(g->remote == NULL || g->bucket->cached);
    assert(!g->counted || g->prefetch == NULL);
}

static void
set_source(struct object_get *g, enum object_source source)
{
    static const unsigned labels[] = {
        [OBJECT_LOCAL] = LABEL_HIT,
        [OBJECT_FETCHED] = LABEL_MISS,
        [OBJECT_JOINED] = LABEL_COALESCED,
        [OBJECT_BYPASS] = LABEL_BYPASS,
    };

    assert(source <= OBJECT_BYPASS);
    g->source = source;
    g->label = labels[source];
}

static void
count_source(struct object_get *g, enum object_source source)
{
    set_source(g, source);
    if (g->bucket->cached)
        metric_add(M_CACHE, g->label, 1);
}

void
get_count_cached(uint64_t bytes)
{
    metric_add(M_CACHE, LABEL_HIT, 1);
    metric_add(M_CACHE_BYTES, LABEL_HIT, (int64_t)bytes);
}

void
get_count_local(const struct map_bucket *b, uint64_t bytes)
{
    if (b->cached)
        get_count_cached(bytes);
}

enum object_source
object_get_source(const struct object_get *g)
{
    return g->source;
}

/* Finds what is here and may be served. ERR_NOT_FOUND: nothing, or a cached version in doubt. When the metadata of an
 * entry is gone, a newer version has replaced it. */
static enum err
find_local(struct object_service *s, const struct disks_key *k, struct entry *entry,
           struct arena *a, struct object_info *info, struct errbuf *eb)
{
    struct rt_retries retries;
    bool found;
    enum err rc;

    rt_retries_begin(&retries);
    do {
        rc = disks_lookup(s->options.disks, k, entry, eb);
        found = rc == ERR_OK;
        if (found && (entry->flags & ENTRY_IN_DOUBT) != 0) {
            rc = err_set(eb, ERR_NOT_FOUND, "the object is in doubt");
            break;
        }
        if (found)
            rc = info_from_entry(s, k, entry, a, info, eb);
    } while (found && rc == ERR_NOT_FOUND && rt_retry());
    rt_retries_end(&retries);
    if (found && rc == ERR_NOT_FOUND && (entry->flags & ENTRY_IN_DOUBT) == 0)
        return object_busy(eb, "read");
    return rc;
}

/* The backend's answer, not kept. */
static enum err
direct_begin(struct object_get *g, struct object_info *info, struct errbuf *eb)
{
    struct s3_object_info from;
    enum err rc = cloud_head(g->s->options.cloud, g->bucket, g->key, g->arena, &from, eb);

    assert(g->bucket->cached);
    if (rc != ERR_OK)
        return rc;
    memset(info, 0, sizeof *info);
    rc = meta_from_backend(&from, g->arena, &info->meta, eb);
    if (rc != ERR_OK)
        return rc;
    info->size = from.size;
    info->mtime_ms = from.mtime_ms;
    etag_of(info->meta.md5, info->meta.parts, info->meta.etag_text, info->etag);
    info->source = OBJECT_BYPASS;
    info->stale = from.stale;
    info->etag_is_md5 = proof_etag_is_md5(&info->meta, &from);
    g->kind = DIRECT;
    g->etag = from.etag;
    return ERR_OK;
}

static void
count_reader(struct object_get *g)
{
    if (g->prefetch || g->counted)
        return;
    g->counted = true;
    atomic_fetch_add_explicit(&g->s->remote_readers, 1, memory_order_relaxed);
}

static enum err
cached_begin(struct object_get *g, struct object_info *info, bool *again,
             struct errbuf *eb)
{
    enum fetch_join_result how = FETCH_JOIN_READ;
    enum err rc;

    assert(g->bucket->cached);
    assert(g->fetch == NULL);
    *again = false;
    count_reader(g);
    rc = fetch_join(g->s, g->bucket, g->key, g->prefetch, g->arena, info, &g->fetch, &how,
                    eb);

    *again = rc == ERR_OK && how == FETCH_JOIN_LOCAL;
    if (rc == ERR_OK && how == FETCH_JOIN_BYPASS && g->prefetch) {
        *info = (struct object_info){.source = OBJECT_BYPASS};
        return ERR_OK; /* nothing will be read */
    }
    if (rc == ERR_OK && how == FETCH_JOIN_BYPASS)
        return direct_begin(g, info, eb);
    g->kind = *again ? LOCAL : FETCHED;
    return rc;
}

/* The entry represents chunks: reading finds out where they are. */
static void
take_chunks(struct object_get *g, const struct object_info *info)
{
    assert(g->chunked == NULL);
    if (g->kind != LOCAL || (g->entry.flags & ENTRY_CHUNKS) == 0)
        return;
    g->kind = CHUNKED;
    g->label = LABEL_NONE;
    g->chunked = arena_alloc(g->arena, sizeof *g->chunked);
    chunked_of(&g->entry, info, g->chunked);
    g->source = OBJECT_LOCAL;
}

static enum err
get_begin(struct object_service *s, const struct map_bucket *b, struct span key,
          struct pace *prefetch, struct arena *a, struct object_info *info,
          struct object_get **out, struct errbuf *eb)
{
    struct object_get *g = arena_alloc(a, sizeof *g);
    struct disks_key k = object_disk_key(b, key);
    struct rt_retries retries;
    bool again;
    enum err rc = object_must_be_here(s, b, key, eb);

    *out = NULL;
    if (rc != ERR_OK)
        return rc;
    *g = (struct object_get){.s = s,
                             .bucket = map_bucket_ref(b),
                             .key = key,
                             .kind = LOCAL,
                             .prefetch = prefetch,
                             .arena = a};
    rt_retries_begin(&retries);
    do {
        again = false;
        rc = find_local(s, &k, &g->entry, a, info, eb);
        if (rc == ERR_OK && !prefetch)
            rc = revalidate_check(s, b, key, &g->entry, REVALIDATE_EXPIRED, info, eb);
        if (rc == ERR_OK && b->cached)
            info->stale = info->stale || cloud_is_down(s->options.cloud, b);
        if (rc == ERR_NOT_FOUND && b->cached)
            rc = cached_begin(g, info, &again, eb); /* again: look again */
    } while (again && rt_retry());
    rt_retries_end(&retries);
    if (again)
        rc = object_busy(eb, "read");
    if (rc != ERR_OK) {
        object_get_end(&g);
        return rc;
    }
    g->size = info->size;
    if (g->kind == FETCHED || g->kind == DIRECT) {
        g->told = arena_alloc(a, sizeof *g->told);
        *g->told = *info;
    }
    take_chunks(g, info);
    if (g->kind == CHUNKED && !prefetch)
        tier_read(s, b, key, &g->entry);
    else if (g->kind != CHUNKED &&
             (!prefetch ||
              info->source != OBJECT_LOCAL)) { /* a prefetch serves no reader */
        count_source(g, info->source);
        if (b->cached && g->kind == LOCAL)
            tier_read(s, b, key, &g->entry);
    }
    if (!prefetch && b->cached)
        readahead_observe(s, b, key, g->size);
    *out = g;
    return ERR_OK;
}

enum err
object_get_begin(struct object_service *s, const struct map_bucket *b, struct span key,
                 struct arena *a, struct object_info *info, struct object_get **out,
                 struct errbuf *eb)
{
    return get_begin(s, b, key, NULL, a, info, out, eb);
}

enum err
get_begin_background(struct object_service *s, const struct map_bucket *b,
                     struct span key, struct pace *pace, struct arena *a,
                     struct object_info *info, struct object_get **out, struct errbuf *eb)
{
    return get_begin(s, b, key, pace, a, info, out, eb);
}

struct object_get *
get_of_entry(struct object_service *s, const struct map_bucket *b, struct span key,
             const struct entry *entry, struct arena *a, const struct object_info *info)
{
    struct object_get *g = arena_alloc(a, sizeof *g);

    *g = (struct object_get){.s = s,
                             .bucket = map_bucket_ref(b),
                             .key = key,
                             .kind = LOCAL,
                             .entry = *entry,
                             .arena = a,
                             .size = info->size};
    take_chunks(g, info);
    return g;
}

enum err
object_get_checksum(struct object_get *g, struct arena *a, struct object_info *info,
                    struct errbuf *eb)
{
    struct disks_key k = object_disk_key(g->bucket, g->key);
    struct object_meta meta;
    enum err rc;

    if (g->kind != LOCAL ||
        (g->entry.flags & (ENTRY_PLAIN | ENTRY_CACHED)) != ENTRY_PLAIN)
        return ERR_OK;
    rc = disks_meta(g->s->options.disks, &k, &g->entry, a, &meta, eb);
    if (rc != ERR_OK)
        return rc;
    info->meta.checksum_algorithm = meta.checksum_algorithm;
    info->meta.checksum_type = meta.checksum_type;
    info->meta.checksum = meta.checksum;
    return ERR_OK;
}

enum err
object_parts(struct object_get *g, struct arena *a, struct object_part_place **out,
             uint32_t *count, struct errbuf *eb)
{
    struct store_object_part *parts;
    enum err rc;

    *count = 0;
    if (g->kind != LOCAL || (g->entry.flags & ENTRY_PARTS) == 0)
        return ERR_OK;
    rc = disks_object_parts(g->s->options.disks, &g->entry, a, &parts, count, eb);
    if (rc != ERR_OK)
        return rc;
    *out = arena_try(a, *count * sizeof **out);
    if (*out == NULL)
        return err_set(eb, ERR_BUSY, "no memory to list %u parts", *count);
    for (uint32_t i = 0; i < *count; i++)
        (*out)[i] =
            (struct object_part_place){.offset = parts[i].offset,
                                       .size = parts[i].size,
                                       .checksum_algorithm = parts[i].checksum_algorithm,
                                       .checksum = parts[i].checksum};
    return ERR_OK;
}

/* Bytes far ahead of the fetch get a request of their own, so that reading a footer does not wait for the whole
 * file. Of an object that is small enough to wait for, a range is proved with the whole. */
#define DIRECT_DISTANCE_MAX MIB(1)
#define RANGE_PROOF_MAX     MIB(8)

/* `begun`: the reader has bytes of this version already. Otherwise an answer without ETag is accepted, which some
 * remotes give to ranges. */
static enum err
direct_range(struct object_get *g, bool begun, struct errbuf *eb)
{
    struct s3_object_info info;
    uint64_t at = g->whole_first ? 0 : g->at, len = g->whole_first ? g->size : g->left;
    enum err rc = cloud_get_begin(g->s->options.cloud, g->bucket, g->key, at,
                                  at + len - 1, g->etag, g->arena, &info, &g->remote, eb);

    assert(g->left > 0);
    assert(g->kind == DIRECT);
    /* Not ERR_PRECONDITION: another version replaced it, and no condition of the caller failed. Some remotes
     * ignore If-Match. */
    if (rc == ERR_PRECONDITION || rc == ERR_RANGE ||
        (rc == ERR_OK &&
         (info.size != g->size || (g->etag.len > 0 && (begun || info.etag.len > 0) &&
                                   !span_eq(info.etag, g->etag)))))
        return err_set(eb, ERR_NOT_FOUND, "the object was replaced at the backend");
    if (rc == ERR_OK && info.body_length != len)
        return err_set(eb, ERR_BACKEND, "the backend sends %llu bytes of a range of %llu",
                       (unsigned long long)info.body_length, (unsigned long long)len);
    return rc;
}

static void
begin_chunks(struct object_get *g)
{
    struct chunk_reader_options o = {.s = g->s,
                                     .bucket = g->bucket,
                                     .key = g->key,
                                     .of = g->chunked,
                                     .first = g->at,
                                     .len = g->left,
                                     .prefetch = g->prefetch};

    assert(g->chunks == NULL);
    assert(g->left > 0);
    g->chunks = chunk_reader_new(&o);
}

/* The reader gets bytes that nothing was compared with. */
static void
set_unverified(struct object_get *g, const char *why)
{
    if (g->unverified == NULL && g->prefetch == NULL)
        metric_add(M_UNVERIFIED, 0, 1);
    g->unverified = why;
}

/* Bytes that no fetch proves: this reader compares them, if it reads the whole object or that is small. */
static enum err
prove_directly(struct object_get *g, struct errbuf *eb)
{
    bool whole = g->at == 0 && g->left == g->size;

    assert(g->told != NULL);
    assert(g->proof == NULL);
    if (!proof_is_possible(g->told)) {
        set_unverified(g, "no-checksum");
        return ERR_OK;
    }
    if (!whole && g->size > PIECE_BYTES) {
        set_unverified(g, "range");
        return ERR_OK;
    }
    g->proof = arena_alloc(g->arena, sizeof *g->proof);
    proof_begin(g->proof, g->s, g->told);
    g->whole_first = !whole;
    return g->size == 0 ? proof_end(g->proof, g->key, eb) : ERR_OK;
}

/* The bytes come from a fetch that proves them once it has them all. */
static void
prove_by_fetch(struct object_get *g)
{
    uint64_t end = g->at + g->left;
    bool proved;

    assert(g->kind == FETCHED);
    if (!proof_is_possible(g->told)) {
        g->unverified = "no-checksum"; /* counted by the fetch */
        return;
    }
    if (end + HELD_BACK > g->size) /* the fetch holds these bytes back for every reader */
        return;
    if (g->size <= RANGE_PROOF_MAX) {
        fetch_reader_hold(g->fetch, end - MIN(g->left, HELD_BACK));
        return;
    }
    (void)fetch_reader_landed(g->fetch, &proved);
    if (!proved)
        set_unverified(g, "range");
}

const char *
object_get_unverified(const struct object_get *g)
{
    return g->unverified;
}

static enum err
next_chunked(struct object_get *g, struct deadline by, struct span *piece,
             struct errbuf *eb)
{
    bool first = g->label == LABEL_NONE;
    enum err rc;

    assert(g->chunks != NULL);
    rc = chunk_reader_next(g->chunks, by, piece, eb);
    if (rc == ERR_OK && chunk_reader_source(g->chunks) != OBJECT_LOCAL)
        g->unverified = "chunk"; /* counted by its fetch */
    if (rc != ERR_OK) /* once some bytes were returned no other version can be read */
        return rc == ERR_NOT_FOUND && !first ? ERR_BACKEND : rc;
    if (first && !(g->prefetch && piece->len == 0))
        count_source(g, chunk_reader_source(g->chunks));
    else
        set_source(g, chunk_reader_source(g->chunks));
    if (g->source != OBJECT_LOCAL)
        count_reader(g);
    return ERR_OK;
}

/* Nothing of it is kept: the bytes go from the remote to this reader. */
static bool
is_passed_through(const struct object_get *g)
{
    return g->kind == DIRECT ||
           (g->kind == FETCHED && g->fetch != NULL && fetch_reader_is_relay(g->fetch));
}

/* Does this reader ask the remote for its range itself? */
static bool
reads_apart(struct object_get *g)
{
    bool proved;

    if (fetch_reader_is_relay(g->fetch))
        return g->at > 0 && !g->whole_first;
    return g->at > fetch_reader_landed(g->fetch, &proved) + DIRECT_DISTANCE_MAX &&
           (g->size > RANGE_PROOF_MAX || !proof_is_possible(g->told));
}

enum err
object_get_range(struct object_get *g, uint64_t first, uint64_t len, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(g->bucket, g->key);

    assert(!g->chosen);
    assert(first <= g->size);
    assert(len <= g->size - first);
    g->chosen = true;
    g->at = first;
    g->left = len;
    if (len == 0)
        return g->size == 0 && is_passed_through(g) ? prove_directly(g, eb) : ERR_OK;
    if (g->kind == CHUNKED) {
        begin_chunks(g);
        return ERR_OK;
    }
    if (g->kind == LOCAL)
        return disks_read_begin(g->s->options.disks, &k, &g->entry, first, len,
                                &g->reader, eb);
    if (g->kind == FETCHED && !fetch_reader_is_relay(g->fetch) &&
        (first > 0 || len < g->size))
        fetch_reader_keep(g->fetch);
    if (is_passed_through(g) && !g->prefetch) {
        enum err rc = prove_directly(g, eb);

        if (rc != ERR_OK)
            return rc;
    }
    if (g->kind == FETCHED && reads_apart(g)) {
        if (!fetch_reader_etag(g->fetch, g->arena, &g->etag))
            return err_set(eb, ERR_BUSY, "no fiber is free to ask which version it is");
        g->kind = DIRECT;
        /* A reader that held a connection while it waits for another could wait for a reader in the same position. */
        if (fetch_reader_is_relay(g->fetch))
            fetch_reader_leave(&g->fetch);
        else
            set_unverified(g, proof_is_possible(g->told) ? "range" : "no-checksum");
    } else if (g->kind == FETCHED && !fetch_reader_is_relay(g->fetch) && !g->prefetch) {
        prove_by_fetch(g);
    }
    return g->kind == DIRECT ? direct_range(g, false, eb) : ERR_OK;
}

enum err
reader_buffer(struct iobuf **buf, uint64_t want, struct deadline by, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (*buf == NULL)
        rc = iobuf_wait((uint32_t)MAX(MIN(want, PIECE_BYTES), 4096u),
                        deadline_sooner(by, deadline_in_ms(IOBUF_WAIT_MS)), buf);
    return rc == ERR_OK ? rc : err_set(eb, rc, "no buffer is free");
}

/* Bytes of the remote, of its own request or of the answer that the fetch left: a proof_source. */
static enum err
passed_through_read(void *arg, char *at, size_t len, size_t *n, struct errbuf *eb)
{
    struct object_get *g = arg;
    struct entry entry;
    bool local;
    enum err rc = g->kind == DIRECT ? cloud_get_read(g->remote, at, len, n, eb)
                                    : fetch_reader_read(g->fetch, g->at, at, len, n,
                                                        &local, &entry, eb);

    assert(g->left > 0);
    if (rc == ERR_OK && *n == 0)
        rc = err_set(eb, ERR_BACKEND, "the backend's answer ended %llu bytes early",
                     (unsigned long long)g->left);
    return rc;
}

static enum err
next_passed_through(struct object_get *g, struct deadline by, struct span *piece,
                    struct errbuf *eb)
{
    size_t n = 0;
    enum err rc = reader_buffer(&g->buf, g->whole_first ? g->size : g->left, by, eb);

    assert(is_passed_through(g));
    assert(g->left > 0);
    if (rc != ERR_OK)
        return rc;
    if (g->whole_first) {
        struct iobuf rest = *g->buf;

        while (rc == ERR_OK && g->proof->got < g->size) {
            rc = proof_read(g->proof, g->key, &rest, passed_through_read, g, &n, eb);
            rest.at += n;
            rest.room -= (uint32_t)n;
        }
        *piece = (struct span){g->buf->at + g->at, g->left};
        return rc;
    }
    rc = g->proof != NULL
             ? proof_read(g->proof, g->key, g->buf, passed_through_read, g, &n, eb)
             : passed_through_read(g, g->buf->at, MIN(g->left, g->buf->room), &n, eb);
    *piece = (struct span){g->buf->at, n};
    return rc;
}

/* The kept bytes went, or cannot be read. A reader that has the beginning continues at the remote, if that still
 * has this version. The rest is not compared with a checksum. */
static enum err
go_direct(struct object_get *g, struct deadline by, struct span *piece, struct errbuf *eb)
{
    bool asked = fetch_reader_etag(g->fetch, g->arena, &g->etag);
    enum err rc;

    assert(g->fetch != NULL);
    assert(g->kind == FETCHED);
    fetch_reader_leave(&g->fetch);
    disks_read_end(&g->reader);
    if (!asked)
        return err_set(eb, ERR_BUSY,
                       "what was kept is gone, and no fiber is free to read on");
    if (g->etag.len == 0) /* an ETag this young was not kept */
        return err_set(eb, ERR_BACKEND,
                       "what was kept is gone and the backend gives no ETag to go on by");
    g->kind = DIRECT;
    set_unverified(g, "range");
    rc = direct_range(g, true, eb);
    return rc == ERR_OK ? next_passed_through(g, by, piece, eb) : rc;
}

/* Reads from the fetch while it runs, and from the disk once it is complete. A prefetch wants the progress only,
 * no bytes. */
static enum err
next_fetched(struct object_get *g, struct deadline by, struct span *piece,
             struct errbuf *eb)
{
    struct disks_key k = object_disk_key(g->bucket, g->key);
    bool local = false, pass = g->prefetch != NULL;
    size_t n = 0;
    enum err rc = pass ? ERR_OK : reader_buffer(&g->buf, g->left, by, eb);

    assert(g->fetch != NULL);
    assert(g->left > 0);
    if (rc != ERR_OK)
        return rc;
    *piece = pass ? (struct span){NULL, g->left}
                  : (struct span){g->buf->at, MIN(g->left, g->buf->room)};
    rc = fetch_reader_read(g->fetch, g->at, pass ? NULL : g->buf->at, piece->len, &n,
                           &local, &g->entry, eb);
    if (keeping_failed(rc) && !pass && !fetch_reader_is_relay(g->fetch))
        return go_direct(g, by, piece, eb);
    if (rc != ERR_OK)
        return rc;
    if (!local) {
        piece->len = n;
        return ERR_OK;
    }
    if (pass) {
        fetch_reader_leave(&g->fetch);
        return ERR_OK;
    }
    rc = disks_read_begin(g->s->options.disks, &k, &g->entry, g->at, g->left, &g->reader,
                          eb);
    if (rc == ERR_OK)
        rc = disks_read_next(&g->reader, by, piece, eb);
    if (rc == ERR_NOT_FOUND)
        return go_direct(g, by, piece, eb);
    g->kind = LOCAL;
    fetch_reader_leave(&g->fetch);
    return rc;
}

enum err
object_get_next(struct object_get *g, struct deadline by, struct span *piece,
                struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(g->chosen);
    object_get_check(g);
    *piece = (struct span){"", 0};
    if (g->left == 0)
        return ERR_OK;
    switch (g->kind) {
    case LOCAL:
        rc = disks_read_next(&g->reader, by, piece, eb);
        break;
    case FETCHED:
        rc = is_passed_through(g) && !g->prefetch ? next_passed_through(g, by, piece, eb)
                                                  : next_fetched(g, by, piece, eb);
        break;
    case DIRECT:
        rc = next_passed_through(g, by, piece, eb);
        break;
    case CHUNKED:
        rc = next_chunked(g, by, piece, eb);
        break;
    }
    if (rc != ERR_OK)
        return rc;
    if (g->prefetch && piece->len == 0)
        g->left = 0; /* local bytes were skipped */
    if (g->left == 0)
        return ERR_OK;
    assert(piece->len > 0);
    assert(piece->len <= g->left);
    g->at += piece->len;
    g->left -= piece->len;
    if (g->bucket->cached)
        metric_add(M_CACHE_BYTES, g->label, (int64_t)piece->len);
    return ERR_OK;
}

unsigned
object_get_more(struct object_get *g, struct span *pieces, unsigned max)
{
    uint64_t bytes = 0;
    unsigned n;

    assert(g->chosen);
    assert(max > 0);
    if (g->kind != LOCAL || g->left == 0)
        return 0;
    n = disks_read_more(&g->reader, pieces, max);
    for (unsigned i = 0; i < n; i++)
        bytes += pieces[i].len;
    assert(bytes <= g->left);
    g->at += bytes;
    g->left -= bytes;
    if (g->bucket->cached)
        metric_add(M_CACHE_BYTES, g->label, (int64_t)bytes);
    return n;
}

bool
object_revalidated_keep(const struct object_get *g, struct object_revalidated *out)
{
    struct disks_key k = object_disk_key(g->bucket, g->key);

    if (g->kind != LOCAL || g->reader.from == NULL || g->label != LABEL_HIT ||
        g->bucket->ttl_ms != 0 /* its time to live may be over */ ||
        !revalidate_is_fresh(g->s, g->bucket, g->key, &g->entry) ||
        (g->bucket->cached && cloud_any_down(g->s->options.cloud)))
        return false;
    out->cached = g->bucket->cached;
    out->reads = 0;
    out->place = g->entry.place;
    out->size = (uint32_t)g->entry.size;
    out->in_log = (g->entry.flags & ENTRY_INLINE) != 0;
    return disks_revalidated_keep(g->s->options.disks, &k, &g->reader, &out->at);
}

void
object_get_end(struct object_get **gp)
{
    struct object_get *g = *gp;

    *gp = NULL;
    if (g == NULL)
        return;
    if (g->counted)
        atomic_fetch_sub_explicit(&g->s->remote_readers, 1, memory_order_relaxed);
    disks_read_end(&g->reader);
    chunk_reader_free(&g->chunks);
    fetch_reader_leave(&g->fetch);
    cloud_get_end(&g->remote);
    if (g->proof != NULL)
        proof_fini(g->proof);
    iobuf_drop(&g->buf);
    map_bucket_drop(&g->bucket);
}

enum err
object_revalidate(struct object_service *s, const struct map_bucket *b, struct span key,
                  struct arena *a, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct object_info info = {0};
    struct entry entry;
    enum err rc = find_local(s, &k, &entry, a, &info, eb);

    if (rc == ERR_OK)
        rc = revalidate_check(s, b, key, &entry, REVALIDATE_ALWAYS, &info, eb);
    if (rc == ERR_OK && info.stale)
        rc = err_set(eb, ERR_BACKEND, "the remote could not be asked");
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
object_next_overwrites(struct object_service *s, const struct map_bucket *b,
                       struct span key, uint32_t *out, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct entry entry;
    enum err rc;

    *out = 0;
    if (b->cached) /* the remote has its own versions */
        return ERR_OK;
    rc = disks_lookup(s->options.disks, &k, &entry, eb);
    if (rc == ERR_OK && entry.overwrites < UINT32_MAX)
        *out = entry.overwrites + 1;
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

enum err
object_head(struct object_service *s, const struct map_bucket *b, struct span key,
            struct arena *a, struct object_info *info, struct errbuf *eb)
{
    struct disks_key k = object_disk_key(b, key);
    struct s3_object_info from;
    struct entry entry;
    enum err rc = object_must_be_here(s, b, key, eb);

    if (rc != ERR_OK)
        return rc;
    rc = find_local(s, &k, &entry, a, info, eb);
    if (rc == ERR_OK)
        rc = revalidate_check(s, b, key, &entry, REVALIDATE_EXPIRED, info, eb);
    if (rc == ERR_OK && b->cached)
        info->stale = info->stale || cloud_is_down(s->options.cloud, b);
    if (rc != ERR_NOT_FOUND || !b->cached)
        return rc;
    rc = cloud_head(s->options.cloud, b, key, a, &from, eb);
    if (rc != ERR_OK)
        return rc;
    memset(info, 0, sizeof *info);
    rc = meta_from_backend(&from, a, &info->meta, eb);
    info->size = from.size;
    info->mtime_ms = from.mtime_ms;
    info->source = OBJECT_FETCHED;
    info->stale = from.stale;
    etag_of(info->meta.md5, info->meta.parts, info->meta.etag_text, info->etag);
    return rc;
}
