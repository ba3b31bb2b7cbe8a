/* http_head_cache: heads that were read before.
 *
 * Clients repeat themselves: from one GET, or PUT of as many bytes, to the next of a connection, and of all connections of one client, the lines
 * behind the first are the same bytes, but for the signature where requests are signed. Such a head is recognised by
 * comparing bytes, and what http_request_parse() made of it then is what it would make of it now. Nothing is judged
 * anew: what differs in any other byte, or in form, is not known and has to be parsed.
 *
 * Only GETs in origin form without a body are kept, and PUTs with a Content-Length that do not ask first; of at most HTTP_HEAD_CACHE_BYTES and HTTP_HEAD_CACHE_FIELDS lines.
 * A table belongs to one loop; no number is given twice in a process. Memory: about 24 KiB; heads borrow the buffer they stand in, never the table.
 */
#pragma once
#include "wire/http.h"

#define HTTP_HEAD_CACHE_BYTES  1024u
#define HTTP_HEAD_CACHE_FIELDS 16u
#define HTTP_HEAD_CACHE_LINE   2048u /* longer first lines are parsed */
/* The end of an Authorization line that may differ: "Signature=" and 64 bytes. */
#define HTTP_HEAD_CACHE_SIGNATURE 64u

struct http_head_cache;
struct http_head_cache *http_head_cache_new(void);
void http_head_cache_free(struct http_head_cache **kp); /* NULL is fine */

/* True: `buf` begins with a whole head that is known; *h is what http_request_parse() would have made of it, but for
 * lines_id: of a PUT 0; of a GET nonzero, and the same for all heads of this table whose lines behind the first are the same bytes but for a
 * signature. *place: where to look first, and where it was found; 0 at first. False: *h is as http_head_init() makes it. */
bool http_head_cache_parse(struct http_head_cache *k, unsigned *place,
                           struct http_head *h, const char *buf, size_t len);
/* http_request_parse() has just made *h of `buf`: keeps it when its lines come for the second time of late (many clients
 * number their requests), and sets lines_id as above. */
void http_head_cache_insert(struct http_head_cache *k, unsigned *place,
                            struct http_head *h, const char *buf);
