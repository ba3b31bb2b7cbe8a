/* http_head_cache: recognises request heads that were parsed before.
 *
 * Clients repeat themselves: from one GET, or PUT of equal length, to the next, on one connection and on all connections of
 * one client, the lines behind the first are the same bytes, except for the signature of signed requests. The cache
 * recognises such a head by comparing bytes, and returns what http_request_parse() made of it. It checks nothing again: a
 * head that differs in any other byte, or in form, is unknown and has to be parsed.
 *
 * Only GETs in origin form without a body are kept, and PUTs with a Content-Length and without Expect; of at most
 * HTTP_HEAD_CACHE_BYTES and HTTP_HEAD_CACHE_FIELDS lines. A table belongs to one loop; lines_id is unique in the process.
 * Memory: about 24 KiB; heads borrow the buffer they stand in, never the table.
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

/* True: `buf` begins with a whole known head; *h is what http_request_parse() would have made of it, except for
 * lines_id. lines_id is 0 for a PUT; for a GET it is nonzero, and equal for all heads of this table whose lines
 * behind the first are equal except for a signature. *place: where to look first, and where it was found; 0 at
 * first. False: *h is as http_head_init() makes it. */
bool http_head_cache_parse(struct http_head_cache *k, unsigned *place,
                           struct http_head *h, const char *buf, size_t len);
/* http_request_parse() has just made *h of `buf`: inserts it when its lines came before recently (many clients
 * number their requests), and sets lines_id as above. */
void http_head_cache_insert(struct http_head_cache *k, unsigned *place,
                            struct http_head *h, const char *buf);
