/* trace: a ring of recent requests for each loop, filled only while `forebay trace` watches.
 *
 * Only the loop writes its ring; readers run on that loop. Without a watcher a request costs one relaxed load. Each ring has
 * TRACE_KEPT entries, allocated at the first watch. An entry contains no query, no header and no access key.
 */
#pragma once
#include "base/err.h"
#include "http/server.h"

#define TRACE_KEPT     1024u
#define TRACE_WATCH_MS 10000 /* a watch expires this long after the last trace_look() */

struct trace_entry {
    uint64_t done_ns; /* monotonic */
    int64_t wall_ms;
    uint64_t duration_ns, first_byte_ns, bytes_in, bytes_out;
    int status; /* 0: the client disconnected */
    char id[20], peer[56], method[12];
    char path[232]; /* bucket and key; cut when longer */
};
struct trace;
struct trace *trace_new(void); /* after rt_loop_count() is known */
void trace_free(struct trace **tp);

/* On the loop of the request. Must not switch. */
void trace_note(struct trace *t, const struct http_request *r, const struct http_done *d);

/* Starts or renews the watch. Returns entries of requests done after `after_ns` (0: now, so none) and until *upto_ns, which
 * the caller passes as the next after_ns. They are sorted by completion; if `room` is too small, the oldest ones, and
 * the next call returns the others. *lost: about how many were overwritten unread. May switch. */
enum err trace_look(struct trace *t, uint64_t after_ns, struct trace_entry *out,
                    size_t room, size_t *count, uint64_t *upto_ns, uint64_t *lost,
                    struct errbuf *eb) MUST_CHECK;
