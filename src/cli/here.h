/* here: what a Forebay server holds of a bucket's keys, beside a listing of them: both are in order, so one walk over both will do. */
#pragma once
#include <jansson.h>

#include "cli/session.h"

/* Of one object, as the server's page tells it; json_decref() it. ERR_NOT_FOUND: it is not there; ERR_NOT_IMPLEMENTED: the server has no
 * such page. */
enum err here_ask(struct session *s, struct span bucket, struct span key, json_t **out,
                  struct errbuf *eb) MUST_CHECK;

struct here; /* of one session */
struct here *here_new(struct session *s);
void here_free(struct here **hp); /* NULL is fine */
/* "cached", "pinned", "in-doubt", "native", or "-": it is not there. `p` names what is listed. Cheap while keys come in byte order.
 * Borrowed until the next call. */
enum err here_state(struct here *h, const struct place *p, struct span key,
                    const char **out, struct errbuf *eb) MUST_CHECK;
/* Of the key that here_state() was called for last: a large object is kept in chunks, and some may be missing. count 0: in one piece. */
struct here_chunks {
    uint64_t count, here, bytes;
};
struct here_chunks here_chunks(const struct here *h);
