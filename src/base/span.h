/* span: borrowed bytes with a length; never NUL-terminated by promise. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

struct span {
    const char *at;
    size_t len;
};

#define SPAN(literal) ((struct span){(literal), sizeof(literal) - 1})
#define SPAN_ARG(s)   (int)(s).len, (s).at /* for "%.*s" */

static inline struct span
span_of(const char *cstr)
{
    return (struct span){cstr, cstr != NULL ? strlen(cstr) : 0};
}
static inline bool
span_eq(struct span a, struct span b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}
static inline bool
span_is(struct span a, const char *cstr)
{
    return span_eq(a, span_of(cstr));
}
static inline bool
span_case_is(struct span a, const char *cstr)
{
    return a.len == strlen(cstr) && strncasecmp(a.at, cstr, a.len) == 0;
}
static inline bool
span_starts(struct span a, struct span with)
{
    return a.len >= with.len && (with.len == 0 || memcmp(a.at, with.at, with.len) == 0);
}
/* Byte order, the shorter first: the order of keys. */
static inline int
span_cmp(struct span a, struct span b)
{
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n > 0 ? memcmp(a.at, b.at, n) : 0;

    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}
static inline struct span
span_from(struct span a, size_t skip)
{
    return skip < a.len
               ? (struct span){a.at + skip, a.len - skip}
               : (struct span){a.len > 0 ? a.at + a.len : a.at, 0}; /* NULL stays NULL */
}
/* Where the first `c` is; NULL when it is nowhere. An empty span may have no memory at all. */
static inline const char *
span_find(struct span a, char c)
{
    return a.len > 0 ? memchr(a.at, c, a.len) : NULL;
}
static inline struct span
span_trim(struct span a) /* spaces and tabs at both ends */
{
    while (a.len > 0 && (a.at[0] == ' ' || a.at[0] == '\t')) {
        a.at++;
        a.len--;
    }
    while (a.len > 0 && (a.at[a.len - 1] == ' ' || a.at[a.len - 1] == '\t'))
        a.len--;
    return a;
}
