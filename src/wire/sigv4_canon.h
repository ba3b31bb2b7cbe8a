/* sigv4_canon: the texts that SigV4 signs. Only for sigv4_*.c and awschunked.c. */
#pragma once
#include "wire/sigv4.h"

#define EMPTY_SHA256   "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define SIGV4_TEXT_MAX 320 /* a string to sign: region and scope have limits */

struct canon {
    const struct sigv4_request *req;
    const struct query *q;
    struct span signed_headers; /* "host;x-amz-date", in the order of signing */
    struct span host; /* stands for the value of the Host header; at NULL: as received */
    struct span payload; /* the last line */
};
/* The canonical request, in the arena. False when it is too long or the arena is full. */
bool canon_request(const struct canon *c, struct arena *a, struct span *out);
/* The canonical path alone, into `room` bytes; 0: it does not fit. */
size_t canon_path(struct span raw, char *out, size_t room);
/* The canonical query alone. */
bool canon_query(const struct query *q, struct arena *a, struct span *out);

/* "AWS4-HMAC-SHA256\n{date}\n{scope}\n{hex sha256(request)}", into `room`. */
struct span canon_string_to_sign(const char *date, struct span scope, struct span request,
                                 char room[SIGV4_TEXT_MAX]);

/* Walks a list like "a;b;c": the next name, or false. */
bool canon_next_name(struct span *list, struct span *name);
bool canon_list_has(struct span list, struct span name);
