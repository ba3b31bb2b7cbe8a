#include "object/fetch.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "object/in_doubt.h"
#include "object/proof.h"
#include "object/revalidate.h"
#include "object/tier.h"
#include "rt/file.h"
#include "rt/point.h"
#include "wire/http.h"

/* A head has at most HTTP_HEAD_MAX bytes and HTTP_HEADERS_MAX lines; each line is copied, and its name once more. */
#define INFO_BYTES_MAX KIB(512)
static_assert(INFO_BYTES_MAX >= 3 * (HTTP_HEAD_MAX + 64 * HTTP_HEADERS_MAX),
              "what a backend says of an object fits");
#define TRANSFER_BYTES (128u << 10) /* received at a time */
#define LAG_BYTES      (512u << 10) /* may wait to be hashed */
#define PACE_LOOK_MS   50           /* the longest delay for a reader that joins */
#define PIECE_LEAST    (32u << 10)  /* smaller reads are not worth a call */
static_assert(TRANSFER_BYTES >= PIECE_LEAST, "a piece fits the smaller buffer");
static_assert(LAG_BYTES >= TRANSFER_BYTES, "a lagging buffer takes a piece");

static struct fetch_chunk *
copy_chunk(const struct fetch_chunk *chunk)
{
    struct fetch_chunk *p;

    if (chunk == NULL)
        return NULL;
    p = xcalloc(1, sizeof *p);
    *p = *chunk;
    p->key.at = xmemdup0(chunk->key.at, chunk->key.len);
    return p;
}

static void
free_chunk(struct fetch_chunk *p)
{
    if (p != NULL)
        free((void *)p->key.at);
    free(p);
}

static struct disks_key
store_key(const struct fetch *f)
{
    return f->chunk != NULL ? chunk_disk_key(f->bucket, f->key)
                            : object_disk_key(f->bucket, f->key);
}

static void
pass_point(const struct fetch *f, enum point whole, enum point chunk)
{
    point_pass(f->chunk != NULL ? chunk : whole);
}

struct fetch *
fetch_ref(struct fetch *f)
{
    assert(f->refs > 0);
    f->refs++;
    return f;
}

void
fetch_drop(struct fetch **fp)
{
    struct fetch *f = *fp;

    *fp = NULL;
    if (f == NULL || --f->refs > 0)
        return;
    assert(f->fiber == NULL);
    assert(f->writer == NULL);
    assert(f->peeking == 0);
    assert(f->readers == 0);
    assert(f->admitted == 0);
    assert(!f->making.begun);
    if (f->slot->fetch == f)
        f->slot->fetch = NULL;
    list_remove(&f->all);
    cloud_get_end(&f->spare);
    free_chunk(f->chunk);
    pace_drop(&f->pace);
    key_slot_drop(&f->slot);
    map_bucket_drop(&f->bucket);
    arena_free(&f->arena);
    free(f);
}

void
fetch_reader_left(struct fetch *f)
{
    assert(f->readers > 0);
    assert(f->refs > f->readers - 1);
    f->readers--;
    if (f->readers == 0)
        rt_cond_broadcast(&f->moved);
    if (f->readers == 0 && !f->keep && f->fiber != NULL) {
        f->obsolete = true; /* later readers start another fetch */
        rt_cancel(f->fiber);
    }
}

uint64_t
fetch_visible(const struct fetch *f)
{
    uint64_t held = MIN(f->info.size, HELD_BACK);

    if (f->state == FETCH_KEPT || f->proved)
        return f->info.size;
    return MIN(f->landed, f->info.size - held);
}

/* What holds in every state, between two switches of its fiber. */
static void
fetch_check(const struct fetch *f)
{
    assert(f->refs > 0);
    assert(f->readers < f->refs || f->fiber == NULL);
    assert(f->heads <= f->readers);
    assert(f->peeking <= f->readers);
    assert(f->peeking == 0 || f->writer != NULL);
    assert(f->landed <= f->info.size);
    assert(!f->proved || f->landed == f->info.size);
    assert(f->state != FETCH_STARTING || f->landed == 0);
    assert(f->state != FETCH_KEPT || f->writer == NULL);
    assert(f->spare == NULL || f->state == FETCH_BYPASS);
    assert(f->rc == ERR_OK || f->state == FETCH_STARTING || f->state == FETCH_STREAMING ||
           f->state == FETCH_FAILED);
    assert(f->slot->refs > 0);
}

static void
fetch_move(struct fetch *f, enum fetch_state to)
{
    assert(f->state == FETCH_STARTING ||
           (f->state == FETCH_STREAMING && to != FETCH_BYPASS));
    f->state = to;
    fetch_check(f);
    rt_cond_broadcast(&f->moved);
    rt_cond_broadcast(&f->slot->changed);
}

/* Reserves room in the tier. False: not to be kept. */
static bool
fetch_admit(struct fetch *f, uint64_t size)
{
    assert(f->admitted == 0);
    if (!tier_admits(f->s, f->bucket, f->key, size, f->pace != NULL))
        return false;
    f->admitted = size;
    return true;
}

static void
release_admitted(struct fetch *f)
{
    tier_release(f->s, f->admitted);
    f->admitted = 0;
}

static void
make_writer(void *arg)
{
    struct fetch *f = arg;
    struct disks_key k = store_key(f);

    f->making.rc = disks_write_begin(f->s->options.disks, &k, STORE_CACHED, f->info.size,
                                     &f->making.writer, &f->making.eb);
    f->making.over = true;
}

/* Waits until the writer is open, or has failed. May switch. */
static enum err
await_writer(struct fetch *f)
{
    assert(f->writer == NULL || !f->making.begun);
    if (!f->making.begun)
        return ERR_OK;
    assert(f->writer == NULL);
    rt_group_join(&f->making.fiber);
    f->making.begun = false;
    f->writer = f->making.writer;
    /* A body has its place now; an inline object counts when it is in the log. */
    if (f->info.size > STORE_INLINE_MAX)
        release_admitted(f);
    assert((f->making.rc == ERR_OK) == (f->writer != NULL));
    assert(f->making.over);
    if (f->making.rc != ERR_OK)
        f->eb = f->making.eb;
    return f->making.rc;
}

/* A full disk, a missing buffer and a body over the size limit are known before the first wait: then nothing is
 * kept (the state stays STARTING). Only the header of a large body's place takes longer: readers get the first
 * bytes meanwhile. */
static enum err
fetch_begin_writer(struct fetch *f)
{
    enum err rc = ERR_OK;

    assert(f->state == FETCH_STARTING);
    assert(!f->making.begun);
    rt_group_begin(&f->making.fiber);
    f->making.begun = true;
    if (f->info.size <= STORE_INLINE_MAX ||
        rt_group_start(&f->making.fiber, make_writer, f) != ERR_OK)
        make_writer(f);
    else
        rt_run_woken();
    if (f->making.over)
        rc = await_writer(f);
    if (rc == ERR_NO_SPACE || rc == ERR_BUSY || rc == ERR_TOO_LARGE)
        return ERR_OK;
    if (rc == ERR_OK)
        fetch_move(f, FETCH_STREAMING);
    return rc;
}

bool
fetch_is_overtaken(const struct fetch *f)
{
    return f->chunk == NULL && f->begun != revalidate_begin(f->s);
}

/* Writes the entry that represents an object in chunks; readers fetch the chunks. The state stays STARTING when
 * there is no room, and when a write is in flight. */
static enum err
keep_as_chunks(struct fetch *f)
{
    struct store_condition unchanged = {.if_version = true, .version = f->before};
    struct disks_key k = store_key(f);
    struct object_meta meta = f->info.meta;
    struct rt_shield shield;
    enum err rc =
        disks_write_begin(f->s->options.disks, &k, STORE_CACHED, 0, &f->writer, &f->eb);

    assert(f->chunk == NULL);
    assert(f->state == FETCH_STARTING);
    if (rc == ERR_NO_SPACE || rc == ERR_BUSY)
        return ERR_OK;
    if (rc != ERR_OK)
        return rc;
    if (f->obsolete || fetch_is_overtaken(f))
        return ERR_OK;
    meta.whole_bytes = f->info.size;
    meta.chunk_bytes = f->s->options.chunk_bytes;
    f->keep = true; /* do not start again when the reader leaves */
    f->sealed = true;
    rt_shield_begin(&shield);
    rc = disks_commit(&f->writer, &meta, &unchanged, &f->entry, &f->eb);
    rt_shield_end(&shield);
    if (rc == ERR_NO_SPACE || rc == ERR_PRECONDITION) {
        f->sealed = false;
        rt_cond_broadcast(&f->slot->changed);
        return ERR_OK;
    }
    if (rc != ERR_OK)
        return rc;
    POINT(CHUNKS_ENTRY);
    if (f->was_chunked)
        tier_sweep(f->s);
    if (!f->info.stale)
        revalidate_mark(f->s, f->bucket, f->key, &f->entry, f->begun);
    fetch_move(f, FETCH_LOCAL);
    return ERR_OK;
}

/* The remote has another version than the one this chunk belongs to. */
static enum err
outdated(struct fetch *f)
{
    return err_set(&f->eb, ERR_NOT_FOUND, "the object was replaced at the backend");
}

static enum err
begin_chunk(struct fetch *f, struct cloud_get **get, struct s3_object_info *from)
{
    const struct fetch_chunk *p = f->chunk;
    uint64_t first = (uint64_t)p->number * p->of.chunk_bytes;
    enum err rc;

    assert(p != NULL);
    assert(p->number < chunk_count(&p->of));
    f->info.size = chunk_len(&p->of, p->number);
    f->info.source = OBJECT_FETCHED;
    if (f->before.epoch !=
        0) { /* it was kept while this reader was on its way to this loop */
        fetch_move(f, FETCH_KEPT);
        return ERR_OK;
    }
    rc = cloud_get_begin(f->s->options.cloud, f->bucket, p->key, first,
                         first + f->info.size - 1, span_of(p->of.etag), f->arena, from,
                         get, &f->eb);
    if (rc == ERR_PRECONDITION || rc == ERR_RANGE)
        return outdated(f);
    if (rc != ERR_OK)
        return rc;
    if (from->size != p->of.size || !span_is(from->etag, p->of.etag))
        return outdated(f);
    if (from->body_length != f->info.size)
        return err_set(
            &f->eb, ERR_BACKEND, "the backend sends %llu bytes of a range of %llu",
            (unsigned long long)from->body_length, (unsigned long long)f->info.size);
    f->info.mtime_ms = f->info.meta.mtime_ms = from->mtime_ms;
    return fetch_admit(f, f->info.size) ? fetch_begin_writer(f) : ERR_OK;
}

/* Before the first byte: asks the backend for the object, and the tier for room. */
static enum err
fetch_begin(struct fetch *f, struct cloud_get **get, struct s3_object_info *from)
{
    struct disks_key k = store_key(f);
    bool large, resolved;
    enum err rc = disks_lookup(f->s->options.disks, &k, &f->entry, &f->eb);

    assert(f->state == FETCH_STARTING);
    if (rc == ERR_OK) {
        f->before = f->entry.version;
        f->was_chunked = (f->entry.flags & ENTRY_CHUNKS) != 0;
    } else if (rc != ERR_NOT_FOUND) {
        return rc;
    }
    if (f->chunk != NULL)
        return begin_chunk(f, get, from);
    if (rc == ERR_OK && (f->entry.flags & ENTRY_IN_DOUBT) == 0) {
        /* The fetch before this one kept it while this reader was on its way to this loop. */
        fetch_move(f, FETCH_LOCAL);
        return ERR_OK;
    }
    if (rc == ERR_OK) {
        rc = in_doubt_resolve(f, &resolved);
        if (rc == ERR_OK && resolved)
            fetch_move(f, FETCH_LOCAL);
        if (rc != ERR_OK || resolved)
            return rc;
    }
    rc = cloud_get_begin(f->s->options.cloud, f->bucket, f->key, 0, UINT64_MAX,
                         (struct span){"", 0}, f->arena, from, get, &f->eb);
    if (rc == ERR_OK)
        rc = meta_from_backend(from, f->arena, &f->info.meta, &f->eb);
    if (rc != ERR_OK)
        return rc;
    f->info.size = from->size;
    f->info.etag_is_md5 = proof_etag_is_md5(&f->info.meta, from);
    f->info.mtime_ms = from->mtime_ms;
    f->etag = from->etag;
    f->info.stale = from->stale;
    etag_of(f->info.meta.md5, f->info.meta.parts, f->info.meta.etag_text, f->info.etag);
    f->info.source = OBJECT_FETCHED;
    if (cloud_etag_is_young(
            from)) /* if kept, it could pass for the next version with that ETag */
        return ERR_OK;
    large = chunks_fit(f->s, f->bucket, f->key, from, &f->info);
    if (!fetch_admit(f, large ? f->s->options.chunk_bytes : from->size))
        return ERR_OK;
    return large ? keep_as_chunks(f) : fetch_begin_writer(f);
}

/* Readers get the first piece before it is written; the writer may still be opening. */
static enum err
write_piece(struct fetch *f, const char *at, size_t n)
{
    enum err rc;

    assert(n > 0);
    assert(f->state == FETCH_STREAMING);
    if (f->landed > 0) {
        rc = disks_write(f->writer, at, n, &f->eb);
        if (rc != ERR_OK)
            return rc;
        f->landed += n;
        rt_cond_broadcast(&f->moved);
        return ERR_OK;
    }
    f->first_piece = at;
    f->landed += n;
    rt_cond_broadcast(&f->moved);
    rt_run_woken();
    rc = await_writer(f);
    if (rc == ERR_OK)
        rc = disks_write(f->writer, at, n, &f->eb);
    f->first_piece = NULL;
    if (rc != ERR_OK)
        f->landed = 0; /* there may be no writer to read from: readers wait for the end */
    return rc;
}

/* A buffer with room to lag, or at least for one piece. */
static enum err
transfer_buffer(const struct fetch *f, struct iobuf **out)
{
    if (f->chunk == NULL && iobuf_get(LAG_BYTES, out) == ERR_OK)
        return ERR_OK;
    return iobuf_get(TRANSFER_BYTES, out);
}

/* A prefetch is as slow as its job wants; a reader that joins lifts the limit. A cancel takes effect in the next
 * read. */
static void
keep_pace(struct fetch *f, size_t n)
{
    uint64_t due =
        f->pace != NULL && !f->urgent ? pace_spent(f->pace, rt_now_ns(), n) : 0;

    while (!f->urgent && rt_now_ns() < due)
        if (rt_sleep_until((struct deadline){
                MIN(due, rt_now_ns() + PACE_LOOK_MS * 1000000ull)}) != ERR_OK)
            return;
}

/* Each piece goes behind those that are not hashed yet. */
static enum err
fetch_transfer(struct fetch *f, struct cloud_get *get, struct proof *proof)
{
    struct iobuf *buf = NULL;
    enum err rc = transfer_buffer(f, &buf);
    uint32_t fill = 0;
    size_t n;

    if (rc != ERR_OK)
        return err_set(&f->eb, rc, "no buffer is free");
    for (;;) {
        if (buf->room - fill < PIECE_LEAST)
            proof_drain(proof);
        if (!proof_lags(proof))
            fill = 0;
        rc = cloud_get_read(get, buf->at + fill, MIN(buf->room - fill, TRANSFER_BYTES),
                            &n, &f->eb);
        if (rc != ERR_OK || n == 0)
            break;
        if (f->landed + n > f->info.size) {
            rc = err_set(&f->eb, ERR_BACKEND, "the backend sent more than its %llu bytes",
                         (unsigned long long)f->info.size);
            break;
        }
        rc = write_piece(f, buf->at + fill, n);
        if (rc != ERR_OK)
            break;
        fetch_check(f);
        pass_point(f, POINT_FETCH_LANDED, POINT_CHUNK_LANDED);
        rt_yield(); /* readers get it before it is hashed: only the end waits for the checksum */
        proof_add(proof, buf->at + fill, n);
        fill += (uint32_t)n;
        keep_pace(f, n);
    }
    if (rc == ERR_OK && f->landed != f->info.size)
        rc = err_set(&f->eb, ERR_BACKEND, "the backend sent %llu of %llu bytes",
                     (unsigned long long)f->landed, (unsigned long long)f->info.size);
    if (rc == ERR_OK)
        proof_drain(proof);
    else
        proof_fini(proof); /* the lagging bytes are in this buffer */
    iobuf_drop(&buf);
    return rc;
}

/* Readers copy from the writer: it may be closed only when none is inside. */
static void
wait_for_peeks(struct fetch *f)
{
    struct rt_shield shield;

    rt_shield_begin(&shield);
    while (f->peeking > 0)
        if (rt_cond_wait(&f->moved, DEADLINE_NEVER) != ERR_OK)
            break; /* cannot be: shielded, no deadline */
    rt_shield_end(&shield);
}

/* Readers that wait for the last bytes take them from the writer; the others wait until the disk has all. */
static void
let_readers_finish(struct fetch *f)
{
    f->proved = true;
    f->keep = true; /* a reader that has everything may leave */
    rt_cond_broadcast(&f->moved);
    rt_yield();
}

/* False: a chunk of a version that has ended. */
static bool
still_wanted(struct fetch *f)
{
    const struct fetch_chunk *p = f->chunk;

    return p == NULL || chunks_stand(f->s, f->bucket, p->key, &p->of);
}

/* Not ERR_PRECONDITION: no condition of the reader failed, it may ask again. */
static enum err
overtaken(struct fetch *f)
{
    return err_set(&f->eb, ERR_BUSY,
                   "\"%.*s\" was written while it was fetched; read again",
                   SPAN_ARG(f->key));
}

static enum err
fetch_commit(struct fetch *f)
{
    struct store_condition unchanged = {.if_version = true, .version = f->before};
    enum err rc;

    assert(f->state == FETCH_STREAMING);
    assert(f->landed == f->info.size);
    assert(f->writer != NULL);
    let_readers_finish(f);
    f->sealed = true;
    wait_for_peeks(f);
    if (f->obsolete || fetch_is_overtaken(f) || !still_wanted(f))
        return overtaken(f);
    rc = disks_commit(&f->writer, &f->info.meta, &unchanged, &f->entry, &f->eb);
    if (rc == ERR_OK) {
        pass_point(f, POINT_FETCH_KEPT, POINT_CHUNK_KEPT);
        tier_kept(f->s, f->bucket, f->key, &f->entry);
        if (f->chunk == NULL && !f->info.stale)
            revalidate_mark(f->s, f->bucket, f->key, &f->entry, f->begun);
        if (f->was_chunked)
            tier_sweep(f->s);
        fetch_move(f, FETCH_KEPT);
    }
    return rc == ERR_PRECONDITION ? overtaken(f) : rc;
}

/* The bytes are proved but will not be kept. Its readers have seen the beginning, and no other source has the rest
 * of this version: they finish from the writer. Later readers start another fetch. A cancel ends it for all:
 * ERR_CANCELLED. */
static enum err
serve_out(struct fetch *f)
{
    enum err rc = ERR_OK;

    assert(f->proved);
    assert(f->writer != NULL);
    LOG(LOG_INFO, "fetch.overtaken", f->eb.text, L_TEXT("bucket", f->bucket->name),
        L_SPAN("key", f->key));
    f->obsolete = true;
    f->sealed = false;
    release_admitted(f); /* no disk will count it */
    rt_cond_broadcast(&f->moved);
    rt_cond_broadcast(&f->slot->changed);
    while (rc == ERR_OK && f->readers > 0)
        rc = rt_cond_wait(&f->moved, DEADLINE_NEVER);
    return rc;
}

/* The backend no longer has the object of an in-doubt entry: ends the entry. */
static void
end_in_doubt_entry(struct fetch *f)
{
    struct disks_key k = object_disk_key(f->bucket, f->key);
    struct store_condition unchanged = {.if_version = true, .version = f->before};
    struct errbuf eb = {{0}};
    bool existed;

    if (f->chunk != NULL) {
        chunks_outdated(f->s, f->bucket, f->chunk->key, &f->chunk->of);
        return;
    }
    if (f->before.epoch != 0 && !f->obsolete &&
        disks_delete(f->s->options.disks, &k, STORE_CACHED, &unchanged, &existed, &eb) !=
            ERR_OK)
        LOG(LOG_WARN, "fetch.forget", eb.text, L_SPAN("key", f->key));
    POINT(FETCH_GONE);
}

static void
fetch_run(void *arg)
{
    struct fetch *f = arg;
    struct cloud_get *get = NULL;
    struct s3_object_info *from = arena_alloc(f->arena, sizeof *from);
    struct proof proof = {0};
    struct rt_shield shield;
    bool served = false;
    enum err rc;

    f->fiber = rt_self();
    if ((f->readers == 0 && !f->keep) || f->slot->table->stopping)
        rt_cancel(f->fiber); /* its last reader left before it began */
    rc = fetch_begin(f, &get, from);
    if (rc == ERR_NOT_FOUND)
        end_in_doubt_entry(f);
    if (rc == ERR_OK && f->state == FETCH_STREAMING) {
        pass_point(f, POINT_FETCH_BEGUN, POINT_CHUNK_BEGUN);
        if (f->pace != NULL && get != NULL)
            cloud_get_background(get, &f->urgent);
        if (!proof_is_possible(&f->info))
            metric_add(M_UNVERIFIED, 0, 1);
        proof_begin(&proof, f->s, &f->info);
        rc = fetch_transfer(f, get, &proof);
        if (rc == ERR_OK)
            rc = proof_end(&proof, f->key, &f->eb);
        if (rc == ERR_OK)
            pass_point(f, POINT_FETCH_PROVED, POINT_CHUNK_PROVED);
        /* Its readers may have all of it by now: an orderly shutdown still keeps it. */
        rt_shield_begin(&shield);
        if (rc == ERR_OK)
            rc = fetch_commit(f);
        rt_shield_end(&shield);
        proof_fini(&proof);
        if (rc != ERR_OK && f->proved && f->writer != NULL) {
            served = serve_out(f) == ERR_OK;
            rc = served ? rc : ERR_CANCELLED; /* no reader continues at the remote */
        }
    }
    rt_shield_begin(&shield);
    if (rc == ERR_OK && f->state == FETCH_STARTING) { /* it exists, but cannot be kept */
        f->spare = f->heads > 0 ? get : NULL;
        get = f->heads > 0 ? NULL : get;
        fetch_move(f, FETCH_BYPASS);
    }
    cloud_get_end(&get);
    if (f->making.begun)
        (void)await_writer(f); /* the transfer failed before it needed the writer */
    if (rc != ERR_OK) {
        f->rc = rc;
        fetch_move(f, FETCH_FAILED);
        wait_for_peeks(f);
    }
    disks_write_abort(&f->writer);
    release_admitted(f);
    rt_shield_end(&shield);
    if (rc != ERR_OK && rc != ERR_NOT_FOUND && rc != ERR_CANCELLED && !served)
        LOG(LOG_WARN, "fetch.failed", f->eb.text, L_TEXT("bucket", f->bucket->name),
            L_SPAN("key", f->key), L_TEXT("code", err_name(rc)));
    assert(f->state != FETCH_STARTING);
    assert(f->state != FETCH_STREAMING);
    assert(f->writer == NULL);
    assert(f->peeking == 0);
    f->fiber = NULL;
    if (f->slot->fetch == f)
        f->slot->fetch =
            NULL; /* later readers find it on the disk, or start another fetch */
    fetch_drop(&f);
}

enum err
fetch_start(struct object_service *s, const struct map_bucket *b, struct key_slot *slot,
            const struct fetch_chunk *chunk, struct pace *prefetch, struct fetch **out,
            struct errbuf *eb)
{
    struct fetch *f;
    enum err rc;

    assert(slot->refs > 0);
    assert(chunk == NULL || chunk->of.chunk_bytes > 0);
    if (slot->table->stopping)
        return err_set(eb, ERR_CANCELLED, "the server is on its way out");
    f = xcalloc(1, sizeof *f);
    f->s = s;
    f->bucket = map_bucket_ref(b);
    f->slot = slot;
    f->chunk = copy_chunk(chunk);
    f->pace = pace_ref(prefetch);
    f->begun = revalidate_begin(s);
    slot->refs++;
    f->key = (struct span){slot->name + 8, slot->name_len - 8};
    f->refs = 2; /* the caller's and the transfer's */
    f->arena = arena_new(KIB(4), INFO_BYTES_MAX);
    rt_cond_init(&f->moved);
    slot->fetch = f;
    list_push_back(&slot->table->fetches, &f->all);
    rc = rt_spawn(fetch_run, f);
    if (rc != ERR_OK) {
        err_set(eb, rc, "no fiber is free for the fetch");
        f->refs = 1;
        fetch_drop(&f);
        return rc;
    }
    *out = f;
    return ERR_OK;
}
