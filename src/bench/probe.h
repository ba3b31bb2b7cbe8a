/* probe: what a machine gives when it is asked for nothing else: a disk, a TCP stream to itself, one object again and again. Bytes a
 * second. Fibers of loop 0; may switch.
 */
#pragma once
#include "bench/accelerator.h"

/* One stream over loopback, sent by loop 1, received by this one. */
enum err probe_loopback(uint64_t ms, double *bytes_s, struct errbuf *eb) MUST_CHECK;
/* Random reads of up to 1 MiB past the page cache, of files that lie below `path`, eight at a time. What is only reserved, or a
 * hole, reads as zeros and does not count. ERR_NOT_FOUND: no file of 64 KiB and more. */
enum err probe_disk(const char *path, uint64_t ms, double *bytes_s,
                    struct errbuf *eb) MUST_CHECK;
/* Writes past the page cache into a file that is made below `path`, of at most 256 MiB, and is gone at once: 1 MiB each, four at a time, made durable
 * each 32 MiB. */
enum err probe_disk_writes(const char *path, uint64_t ms, double *bytes_s,
                           struct errbuf *eb) MUST_CHECK;
/* `p` again and again, so many at a time on each of so many loops. */
enum err probe_path(const struct train_piece *p, unsigned concurrency, unsigned loops,
                    train_fetch *fetch, void *arg, uint64_t ms, double *bytes_s,
                    struct errbuf *eb) MUST_CHECK;
