/* trace: the last requests of each loop, kept only while `forebay trace` watches.
 *
 * A ring a loop, written by that loop alone; readers ask the loop. Without a watcher a request costs one relaxed load. Bounded:
 * TRACE_KEPT entries a loop, made when first watched. No query, no header, no key of anybody is in an entry.
 */
#pragma once
#include "base/err.h"
#include "http/server.h"

#define TRACE_KEPT     1024u
#define TRACE_WATCH_MS 10000 /* after the last look the watcher counts as gone */

struct trace_entry {
    uint64_t done_ns; /* monotonic */
    int64_t wall_ms;
    uint64_t duration_ns, first_byte_ns, bytes_in, bytes_out;
    int status; /* 0: the client left */
    char id[20], peer[56], method[12];
    char path[232]; /* bucket and key; cut when longer */
};
struct trace;
struct trace *trace_new(void); /* where rt_loop_count() is known */
void trace_free(struct trace **tp);

/* On the loop of the request. Must not switch. */
void trace_note(struct trace *t, const struct http_request *r, const struct http_done *d);

/* Starts or renews watching. Entries that were done after `after_ns` (0: now, so none) and until *upto_ns, which the next look gives as after_ns, in the
 * order in which they were done; at most `room`, the oldest of them (the next look has the others). *lost: about how many were
 * overwritten before anybody saw them. May switch. */
enum err trace_look(struct trace *t, uint64_t after_ns, struct trace_entry *out,
                    size_t room, size_t *count, uint64_t *upto_ns, uint64_t *lost,
                    struct errbuf *eb) MUST_CHECK;
