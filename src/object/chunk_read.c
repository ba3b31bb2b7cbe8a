#include "object/chunk_read.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "object/fetch.h"
#include "object/revalidate.h"
#include "object/tier.h"
#include "rt/fiber.h"

#define LOOKED_MAX            256u /* chunks looked up before the first byte */
#define LOOKED_BETWEEN_YIELDS 64u

enum from { FROM_NONE, FROM_DISK, FROM_FETCH, FROM_REMOTE };

struct chunk_reader {
    struct object_service *s;
    const struct map_bucket *bucket;
    struct fetch_chunk chunk; /* the current one */
    struct pace *prefetch;    /* borrowed; NULL: an ordinary reader */
    bool bypassed;
    bool looked; /* the remote has answered for a missing chunk, or none is missing */
    uint64_t at, end; /* of the range */
    uint64_t stop;    /* of the current source */
    enum from from;
    enum object_source source;
    char name[STORE_KEY_MAX]; /* of the current chunk */
    size_t name_len;
    struct entry entry;         /* FROM_DISK */
    struct disks_reader reader; /* FROM_DISK */
    struct fetch_reader *fetch; /* FROM_FETCH; owned */
    struct cloud_get *remote;   /* FROM_REMOTE; owned */
    struct arena *arena;        /* FROM_REMOTE; owned */
    struct iobuf *buf;          /* FROM_FETCH, FROM_REMOTE; owned */

    /* In flight: the slot of a chunk is its number modulo CHUNK_WINDOW. */
    struct {
        uint32_t number;
        struct fetch_reader *fetch; /* owned; NULL: none */
    } window[CHUNK_WINDOW];
    uint32_t window_next;
};

struct chunk_reader *
chunk_reader_new(const struct chunk_reader_options *o)
{
    struct chunk_reader *r = xcalloc(1, sizeof *r);

    assert(o->len > 0);
    assert(o->of->chunk_bytes > 0);
    assert(o->first < o->of->size);
    assert(o->len <= o->of->size - o->first);
    r->s = o->s;
    r->bucket = o->bucket;
    r->chunk = (struct fetch_chunk){.key = o->key, .of = *o->of};
    r->prefetch = o->prefetch;
    r->at = o->first;
    r->end = o->first + o->len;
    r->window_next = (uint32_t)(o->first / o->of->chunk_bytes);
    return r;
}

/* What holds between two calls. */
static void
chunk_reader_check(const struct chunk_reader *r)
{
    assert(r->at <= r->end);
    assert(r->end <= r->chunk.of.size);
    assert(r->from != FROM_REMOTE || r->remote != NULL);
    assert(r->from != FROM_REMOTE || r->arena != NULL);
    assert(r->from == FROM_NONE || r->at <= r->stop);
    assert(r->from == FROM_NONE ||
           r->stop <= (uint64_t)(r->chunk.number + 1) * r->chunk.of.chunk_bytes);
}

static void
close_chunk(struct chunk_reader *r)
{
    disks_read_end(&r->reader);
    fetch_reader_leave(&r->fetch);
    cloud_get_end(&r->remote);
    if (r->arena != NULL)
        arena_free(&r->arena);
    r->from = FROM_NONE;
}

void
chunk_reader_free(struct chunk_reader **rp)
{
    struct chunk_reader *r = *rp;

    *rp = NULL;
    if (r == NULL)
        return;
    close_chunk(r);
    for (unsigned i = 0; i < CHUNK_WINDOW; i++)
        fetch_reader_leave(&r->window[i].fetch);
    iobuf_drop(&r->buf);
    free(r);
}

enum object_source
chunk_reader_source(const struct chunk_reader *r)
{
    return r->source;
}

static bool
chunk_is_local(struct chunk_reader *r, uint32_t number, struct entry *entry)
{
    char name[STORE_KEY_MAX];
    size_t len = chunk_name(&r->chunk.of, r->chunk.key, number, name);
    struct errbuf eb = {{0}};

    return chunk_lookup(r->s, r->bucket, (struct span){name, len}, entry, &eb) == ERR_OK;
}

/* Fills the window behind the current chunk. A fetch that cannot start now starts when it is needed. */
static void
fill_window(struct chunk_reader *r)
{
    uint32_t bytes = r->chunk.of.chunk_bytes;
    uint32_t last = (uint32_t)((r->end - 1) / bytes);
    struct fetch_chunk next = r->chunk;

    r->window_next = MAX(r->window_next, r->chunk.number + 1);
    while (!r->bypassed && r->window_next <= last &&
           r->window_next < r->chunk.number + CHUNK_WINDOW) {
        uint32_t number = r->window_next;
        struct errbuf eb = {{0}};
        struct entry entry;

        next.number = number;
        if (!chunk_is_local(r, number, &entry) &&
            fetch_join_chunk_begin(r->s, r->bucket, &next, r->prefetch,
                                   &r->window[number % CHUNK_WINDOW].fetch,
                                   &eb) != ERR_OK)
            return;
        r->window[number % CHUNK_WINDOW].number = number;
        r->window_next++;
    }
}

static enum err
begin_local(struct chunk_reader *r, struct errbuf *eb)
{
    struct disks_key k = chunk_disk_key(r->bucket, (struct span){r->name, r->name_len});
    enum err rc = disks_read_begin(r->s->options.disks, &k, &r->entry,
                                   r->at % r->chunk.of.chunk_bytes, r->stop - r->at,
                                   &r->reader, eb);

    assert(r->name_len > 0);
    assert(r->at < r->stop);
    if (rc == ERR_OK)
        r->from = FROM_DISK;
    return rc;
}

/* Reads the rest of this chunk, of the version that the reader was promised, from the backend without keeping it. */
static enum err
begin_direct(struct chunk_reader *r, struct errbuf *eb)
{
    const struct chunked *of = &r->chunk.of;
    struct s3_object_info from;
    enum err rc;

    assert(r->remote == NULL);
    assert(r->at < r->stop);
    fetch_reader_leave(&r->fetch);
    r->arena = arena_new(KIB(4), MIB(1));
    rc = cloud_get_begin(r->s->options.cloud, r->bucket, r->chunk.key, r->at, r->stop - 1,
                         span_of(of->etag), r->arena, &from, &r->remote, eb);
    if (rc == ERR_PRECONDITION || rc == ERR_NOT_FOUND || rc == ERR_RANGE ||
        (rc == ERR_OK && (from.size != of->size || !span_is(from.etag, of->etag)))) {
        chunks_outdated(r->s, r->bucket, r->chunk.key, of);
        return err_set(eb, ERR_NOT_FOUND, "the object was replaced at the backend");
    }
    if (rc == ERR_OK && from.body_length != r->stop - r->at)
        return err_set(eb, ERR_BACKEND, "the backend sends %llu bytes of a range of %llu",
                       (unsigned long long)from.body_length,
                       (unsigned long long)(r->stop - r->at));
    if (rc == ERR_OK) {
        metric_add(M_UNVERIFIED, 0, 1);
        r->from = FROM_REMOTE;
        r->source = OBJECT_BYPASS;
    }
    return rc;
}

/* Waits for the chunk's fetch, started earlier or now. A fetch that failed ahead is retried once. */
static enum err
await_fetch(struct chunk_reader *r, enum fetch_join_result *how, struct errbuf *eb)
{
    unsigned slot = r->chunk.number % CHUNK_WINDOW;
    enum err rc = ERR_OK;

    if (r->window[slot].fetch != NULL && r->window[slot].number == r->chunk.number) {
        r->fetch = r->window[slot].fetch;
        r->window[slot].fetch = NULL;
        fill_window(r);
        rc = fetch_join_chunk_await(r->fetch, &r->source, how, eb);
        if (rc == ERR_OK || rc == ERR_NOT_FOUND || rc == ERR_CANCELLED)
            return rc;
        fetch_reader_leave(&r->fetch);
    }
    rc = fetch_join_chunk_begin(r->s, r->bucket, &r->chunk, r->prefetch, &r->fetch, eb);
    if (rc != ERR_OK)
        return rc;
    fill_window(r);
    return fetch_join_chunk_await(r->fetch, &r->source, how, eb);
}

/* A reader that held an open answer while it waits for another could wait for a reader in the same position. */
static void
leave_relays(struct chunk_reader *r)
{
    for (unsigned i = 0; i < CHUNK_WINDOW; i++)
        if (r->window[i].fetch != NULL && r->window[i].number != r->chunk.number &&
            fetch_reader_is_relay(r->window[i].fetch))
            fetch_reader_leave(&r->window[i].fetch);
}

static enum err
begin_fetched(struct chunk_reader *r, struct errbuf *eb)
{
    uint64_t chunk_end = (uint64_t)r->chunk.number * r->chunk.of.chunk_bytes +
                         chunk_len(&r->chunk.of, r->chunk.number);
    enum fetch_join_result how = FETCH_JOIN_READ;
    enum err rc;

    assert(r->from == FROM_NONE);
    assert(r->fetch == NULL);
    r->looked = true; /* by the answer for this chunk */
    leave_relays(r);
    rc = await_fetch(r, &how, eb);
    if (keeping_failed(rc) && !r->prefetch)
        return begin_direct(r, eb);
    if (rc != ERR_OK)
        return rc;
    r->bypassed = r->source == OBJECT_BYPASS;
    if (r->bypassed && r->prefetch) {
        r->end = r->at; /* there is no room */
        return ERR_OK;
    }
    if (how == FETCH_JOIN_BYPASS ||
        (fetch_reader_is_relay(r->fetch) && r->at % r->chunk.of.chunk_bytes != 0))
        return begin_direct(r, eb);
    if (!fetch_reader_is_relay(r->fetch) && r->stop < chunk_end)
        fetch_reader_keep(r->fetch); /* the reader leaves before the end of the fetch */
    r->from = FROM_FETCH;
    return ERR_OK;
}

/* Finds the first missing chunk behind the current one; *begun: its fetch is in flight. False: none is missing. */
static bool
find_missing(struct chunk_reader *r, uint32_t *number, bool *begun)
{
    uint32_t last = (uint32_t)((r->end - 1) / r->chunk.of.chunk_bytes);
    uint32_t looked = 0;
    struct entry entry;

    *begun = true;
    for (*number = r->chunk.number + 1; *number < r->window_next; (*number)++)
        if (r->window[*number % CHUNK_WINDOW].fetch != NULL)
            return true;
    *begun = false;
    for (; *number <= last && looked < LOOKED_MAX; (*number)++) {
        if (!chunk_is_local(r, *number, &entry))
            return true;
        if (++looked % LOOKED_BETWEEN_YIELDS == 0)
            rt_yield();
    }
    return false;
}

/* Is this version still the remote's? One HEAD for all waiting readers. A remote that refuses HEAD is not asked. */
static enum err
ask_remote(struct chunk_reader *r, struct errbuf *eb)
{
    const struct chunked *of = &r->chunk.of;
    struct object_info info = {.size = of->size};
    struct entry entry;
    enum err rc = ERR_NOT_FOUND;

    memcpy(info.etag, of->etag, sizeof of->etag);
    if (chunks_entry(r->s, r->bucket, r->chunk.key, of, &entry))
        rc = revalidate_check(r->s, r->bucket, r->chunk.key, &entry, REVALIDATE_SHARED,
                              &info, eb);
    if (rc == ERR_DENIED || rc == ERR_BAD_REQUEST || rc == ERR_NOT_IMPLEMENTED)
        return ERR_OK;
    if (rc == ERR_NOT_FOUND)
        return err_set(eb, rc, "the object was replaced at the backend");
    return rc == ERR_OK && info.stale
               ? err_set(eb, ERR_BACKEND, "the remote could not be asked")
               : rc;
}

/* The current chunk is local and no byte was returned yet: does the remote still have the others? Until the first
 * byte the caller can still switch to another version, or answer with an error. The answer for the first missing
 * chunk tells, if it is in flight. A chunk further ahead, or one that cannot be kept, is not requested for this;
 * then a HEAD asks the remote. */
static enum err
check_missing(struct chunk_reader *r, struct errbuf *eb)
{
    enum fetch_join_result how = FETCH_JOIN_READ;
    enum object_source source = OBJECT_LOCAL;
    struct fetch_reader **fetch;
    uint32_t number;
    bool begun;
    enum err rc;

    r->looked = true;
    if (!find_missing(r, &number, &begun))
        return ERR_OK;
    if (!begun)
        return ask_remote(r, eb);
    fetch = &r->window[number % CHUNK_WINDOW].fetch;
    rc = fetch_join_chunk_await(*fetch, &source, &how, eb);
    r->bypassed = r->bypassed || (rc == ERR_OK && source == OBJECT_BYPASS);
    /* An open answer is kept only if it is read next: it must not stay open while the client reads local chunks. */
    if (rc == ERR_OK && fetch_reader_is_relay(*fetch) && number != r->chunk.number + 1)
        fetch_reader_leave(fetch);
    if (!keeping_failed(rc))
        return rc;
    fetch_reader_leave(fetch); /* retried when it is its turn */
    return ask_remote(r, eb);
}

/* The chunk has an entry. *gone: it was evicted before the read began. */
static enum err
open_local(struct chunk_reader *r, bool *gone, struct errbuf *eb)
{
    enum err rc;

    r->source = OBJECT_LOCAL;
    fill_window(r);
    fetch_reader_leave(&r->window[r->chunk.number % CHUNK_WINDOW].fetch);
    if (r->prefetch) {
        r->at = r->stop;
        return ERR_OK;
    }
    rc = r->looked ? ERR_OK : check_missing(r, eb);
    if (rc != ERR_OK)
        return rc;
    rc = begin_local(r, eb);
    *gone = rc == ERR_NOT_FOUND;
    if (rc == ERR_OK)
        tier_read(r->s, r->bucket, (struct span){r->name, r->name_len}, &r->entry);
    return rc;
}

static enum err
open_chunk(struct chunk_reader *r, struct errbuf *eb)
{
    const struct chunked *of = &r->chunk.of;
    struct rt_retries retries;
    bool gone;
    enum err rc;

    close_chunk(r);
    r->chunk.number = (uint32_t)(r->at / of->chunk_bytes);
    r->stop = MIN(r->end, ((uint64_t)r->chunk.number + 1) * of->chunk_bytes);
    r->name_len = chunk_name(of, r->chunk.key, r->chunk.number, r->name);
    rt_retries_begin(&retries);
    do {
        gone = false;
        rc = chunk_is_local(r, r->chunk.number, &r->entry) ? open_local(r, &gone, eb)
                                                           : begin_fetched(r, eb);
    } while (gone && rt_retry());
    rt_retries_end(&retries);
    return gone ? object_busy(eb, "read") : rc;
}

/* Reads from the fetch while it runs, and from the disk once it is complete. A prefetch wants the progress only,
 * no bytes. */
static enum err
next_fetched(struct chunk_reader *r, struct deadline by, struct span *piece,
             struct errbuf *eb)
{
    bool local = false, pass = r->prefetch != NULL;
    size_t n = 0;
    enum err rc = pass ? ERR_OK : reader_buffer(&r->buf, r->chunk.of.chunk_bytes, by, eb);

    if (rc != ERR_OK)
        return rc;
    *piece = pass ? (struct span){NULL, r->stop - r->at}
                  : (struct span){r->buf->at, MIN(r->stop - r->at, r->buf->room)};
    rc = fetch_reader_read(r->fetch, r->at % r->chunk.of.chunk_bytes,
                           pass ? NULL : r->buf->at, piece->len, &n, &local, &r->entry,
                           eb);
    if (rc == ERR_OK && !local)
        piece->len = n;
    if (rc != ERR_OK || !local)
        return rc;
    fetch_reader_leave(&r->fetch);
    if (pass)
        return ERR_OK;
    rc = begin_local(r, eb);
    return rc == ERR_OK ? disks_read_next(&r->reader, by, piece, eb) : rc;
}

static enum err
next_direct(struct chunk_reader *r, struct deadline by, struct span *piece,
            struct errbuf *eb)
{
    size_t n = 0;
    enum err rc = reader_buffer(&r->buf, r->chunk.of.chunk_bytes, by, eb);

    if (rc == ERR_OK)
        rc = cloud_get_read(r->remote, r->buf->at, MIN(r->stop - r->at, r->buf->room), &n,
                            eb);
    if (rc == ERR_OK && n == 0)
        rc = err_set(eb, ERR_BACKEND, "the backend's answer ended early");
    *piece = (struct span){r->buf != NULL ? r->buf->at : "", n};
    return rc;
}

enum err
chunk_reader_next(struct chunk_reader *r, struct deadline by, struct span *piece,
                  struct errbuf *eb)
{
    enum err rc = ERR_OK;

    assert(by.at_ns > 0);
    assert(r->chunk.of.chunk_bytes > 0);
    chunk_reader_check(r);
    *piece = (struct span){"", 0};
    while (rc == ERR_OK && r->at < r->end && (r->from == FROM_NONE || r->at == r->stop))
        rc = open_chunk(r, eb);
    if (rc != ERR_OK || r->at == r->end)
        return rc;
    if (r->from == FROM_DISK)
        rc = disks_read_next(&r->reader, by, piece, eb);
    else if (r->from == FROM_FETCH)
        rc = next_fetched(r, by, piece, eb);
    if (keeping_failed(rc) && r->from == FROM_FETCH && r->fetch != NULL && r->buf != NULL)
        rc = begin_direct(r, eb);
    if (rc == ERR_OK && r->from == FROM_REMOTE)
        rc = next_direct(r, by, piece, eb);
    /* The entry of a chunk that was just fetched may go while it is read: look it up again. */
    if (rc == ERR_NOT_FOUND && r->from == FROM_FETCH && r->fetch == NULL) {
        r->from = FROM_NONE;
        return chunk_reader_next(r, by, piece, eb);
    }
    if (rc != ERR_OK)
        return rc;
    assert(piece->len <= r->stop - r->at);
    r->at += piece->len;
    chunk_reader_check(r);
    return ERR_OK;
}
