/* point: named places where a test lets the process die, wait, or meet a failing disk (docs/durability.md).
 * In a release build a point is nothing at all.
 *
 *     POINT(WAL_WRITTEN);
 *
 * FB_TEST_HOOKS builds read FOREBAY_FAULT at their first point: NAME:N:ACTION, several with commas between; the Nth time
 * that NAME is passed (counted over all loops, from 1) ACTION happens: `kill` (SIGKILL, as kill -9), `sleep=MS`, or
 * `error` (the next operation of any observed disk fails with EIO). What cannot be read stops the process. Where
 * FOREBAY_FAULT_FROM names a file, what is passed before there is one does not count. In the simulator a point is where
 * sim_cut_at_point() cuts the power.
 *
 * Any thread, fiber or not. `sleep` waits as the fiber does; outside fibers it blocks.
 */
#pragma once
#include <stdint.h>

/* X(POINT_..., name): "x.before" and "x" (done, but nothing that comes of it) surround one step. */
#define POINT_TABLE(X)                                                                   \
    /* write */                                                                          \
    X(SEGMENT_MADE, "segment.made")                                                      \
    X(BODY_RESERVED, "body.reserved")                                                    \
    X(BODY_WRITTEN, "body.written")                                                      \
    X(BODY_SEALED, "body.sealed")                                                        \
    X(BODY_SYNCED, "body.synced")                                                        \
    X(WAL_BEFORE, "wal.before")                                                          \
    X(WAL_WRITTEN, "wal.written")                                                        \
    X(WAL_SYNCED, "wal.synced")                                                          \
    X(COMMIT_VISIBLE, "commit.visible")                                                  \
    X(COMMIT_ANSWERED, "commit.answered")                                                \
    X(INDEX_BEFORE, "index.before")                                                      \
    X(INDEX_COMMITTED, "index.committed")                                                \
    X(INDEX_DROPPED, "index.dropped")                                                    \
    /* records: it has its place in a group that is not written yet */                   \
    X(RECORD_PUT, "record.put")                                                          \
    X(RECORD_COMMIT, "record.commit")                                                    \
    X(RECORD_DELETE, "record.delete")                                                    \
    X(RECORD_UPLOAD_BEGIN, "record.upload-begin")                                        \
    X(RECORD_PART, "record.part")                                                        \
    X(RECORD_UPLOAD_COMPLETE, "record.upload-complete")                                  \
    X(RECORD_UPLOAD_ABORT, "record.upload-abort")                                        \
    X(RECORD_BUCKET, "record.bucket")                                                    \
    X(RECORD_IN_DOUBT, "record.in_doubt")                                                \
    X(RECORD_PREPARE, "record.prepare")                                                  \
    X(RECORD_COMMIT_PREPARED, "record.resolve")                                          \
    X(RECORD_OTHER, "record.other")                                                      \
    /* redundancy */                                                                     \
    X(COPY_WRITTEN, "copy.written")                                                      \
    X(COPY_PREPARED, "copy.prepared")                                                    \
    X(COPY_OWNED, "copy.owned")                                                          \
    X(COPY_RESOLVED, "copy.resolved")                                                    \
    /* space */                                                                          \
    X(EVICT_CHOSEN, "evict.chosen")                                                      \
    X(EVICT_DROPPED, "evict.dropped")                                                    \
    X(UNLINK_BEFORE, "unlink.before")                                                    \
    X(PUNCH_BEFORE, "punch.before")                                                      \
    X(PUNCHED, "punch.done")                                                             \
    X(COMPACT_COPIED, "compact.copied")                                                  \
    X(COMPACT_INDEXED, "compact.indexed")                                                \
    X(COMPACT_FREED, "compact.freed")                                                    \
    X(UNLINKED, "unlink.done")                                                           \
    /* moving: drain, repair, rebalance */                                               \
    X(MOVE_LISTED, "move.listed")                                                        \
    X(MOVE_COPIED, "move.copied")                                                        \
    X(MOVE_FORGOTTEN, "move.forgotten")                                                  \
    X(MOVE_SAVED, "move.saved")                                                          \
    /* start */                                                                          \
    X(START_SUPERBLOCK, "start.superblock")                                              \
    X(START_REPLAYED, "start.replayed")                                                  \
    X(START_BURIED, "start.buried")                                                      \
    X(START_READY, "start.ready")                                                        \
    /* the tier, above the disks: cold GET, chunk, revalidation, write, eviction */      \
    X(FETCH_BEGUN, "fetch.begun")                                                        \
    X(FETCH_LANDED, "fetch.landed")                                                      \
    X(FETCH_PROVED, "fetch.proved")                                                      \
    X(FETCH_KEPT, "fetch.kept")                                                          \
    X(CHUNKS_ENTRY, "chunks.entry")                                                      \
    X(CHUNK_BEGUN, "chunk.begun")                                                        \
    X(CHUNK_LANDED, "chunk.landed")                                                      \
    X(CHUNK_PROVED, "chunk.proved")                                                      \
    X(CHUNK_KEPT, "chunk.kept")                                                          \
    X(CHUNK_SWEPT, "chunk.swept")                                                        \
    X(CHUNKS_ENDED, "chunks.ended")                                                      \
    X(FETCH_GONE, "fetch.gone")                                                          \
    X(IN_DOUBT_ASKED, "in_doubt.asked")                                                  \
    X(REVALIDATE_ENDED, "revalidate.ended")                                              \
    X(WRITE_THROUGH_IN_DOUBT, "write_through.in_doubt")                                  \
    X(WRITE_THROUGH_SENT, "write_through.sent")                                          \
    X(WRITE_THROUGH_KEPT, "write_through.kept")                                          \
    X(EVICT_PAGE, "evict.page")                                                          \
    X(JOB_SAVED, "job.saved")                                                            \
    X(SECRET_READ, "secret.read")                                                        \
    /* a part of an upload was listed, and is about to be read */                        \
    X(SCRUB_PART, "scrub.part")                                                          \
    /* the disks that could hold a key are chosen, and not asked yet */                  \
    X(PLACES_CHOSEN, "places.chosen")                                                    \
    /* the version of an archive is known, and its members are not read yet */           \
    X(SHARD_FOUND, "shard.found")                                                        \
    X(SHARD_OPENED, "shard.opened")                                                      \
    /* a run of sorted records, the phase of sorting, a new shard */                     \
    X(RESHARD_RUN, "reshard.run")                                                        \
    X(RESHARD_SORTING, "reshard.sorting")                                                \
    X(RESHARD_CREATED, "reshard.created")

enum point {
#define X(id, name) POINT_##id,
    POINT_TABLE(X)
#undef X
        POINTS_,
    POINTS_OF_DISKS = POINT_FETCH_BEGUN, /* those before it are passed by disks alone */
};

#ifdef FB_TEST_HOOKS
#define POINT(id) point_pass(POINT_##id)
void point_pass(enum point p);
#else
#define POINT(id) ((void)0)
static inline void
point_pass(enum point p)
{
    (void)p;
}
#endif
