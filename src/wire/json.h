/* json: a writer for `--json` and status pages. Keys are static text, values are escaped,
 * commas are put by themselves; bytes that are not UTF-8 become U+FFFD. Reading is
 * jansson's, where it is needed. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/span.h"

#define JSON_DEPTH_MAX 16

struct json {
    struct buf *out; /* borrowed */
    unsigned depth;
    bool started[JSON_DEPTH_MAX]; /* something stands at this depth already */
    bool is_object[JSON_DEPTH_MAX];
};
/* In an object every value has a key; in an array and at the top `key` is NULL. */
void json_begin(struct json *j, struct buf *out);
void json_open_object(struct json *j, const char *key);
void json_open_array(struct json *j, const char *key);
void json_end(struct json *j); /* the innermost */
void json_span(struct json *j, const char *key, struct span value);
void json_text(struct json *j, const char *key, const char *value); /* NULL writes null */
void json_u64(struct json *j, const char *key, uint64_t value);
void json_i64(struct json *j, const char *key, int64_t value);
void json_f64(struct json *j, const char *key, double value); /* not finite: null */
void json_bool(struct json *j, const char *key, bool value);
void json_put_null(struct json *j, const char *key);
void json_escape(struct buf *out, struct span text); /* without the quotes */
