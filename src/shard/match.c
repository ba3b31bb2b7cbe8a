/* match: which members of a shard are wanted; see match.h.
 *
 * Expressions come from clients. The DFA matcher follows all alternatives at once: its time is bounded by the name's
 * length times the expression's states, where a backtracking matcher can take exponential time. Compiled size, nesting,
 * recursion and memory have limits of their own.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "shard/match.h"

#include <assert.h>
#include <pcre2.h>
#include <stdlib.h>

#include "base/mem.h"
#include "shard/format.h"

#define WORKSPACE   4096u  /* ints: room for the states of one position */
#define WORK_MAX    100000 /* calls of the matcher on one name */
#define DEPTH_MAX   250
#define HEAP_KIB    1024
#define NESTING_MAX 64

struct shard_match {
    enum shard_match_kind kind;
    char *pattern; /* owned */
    size_t len;
    /* of an expression */
    pcre2_code *code;
    pcre2_match_context *limits;
    pcre2_match_data *data;
    int *workspace; /* owned */
};

static struct span
match_pattern(const struct shard_match *m)
{
    return (struct span){m->pattern, m->len};
}

static enum err
match_compile(struct shard_match *m, struct errbuf *eb)
{
    pcre2_compile_context *c = pcre2_compile_context_create(NULL);
    PCRE2_SIZE at = 0;
    int code = 0;
    PCRE2_UCHAR why[128];

    assert(m->kind == SHARD_MATCH_REGEXP);
    if (c == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a regular expression");
    pcre2_set_parens_nest_limit(c, NESTING_MAX);
    /* NEVER_BACKSLASH_C: it would split characters. No UTF: names are bytes. */
    m->code = pcre2_compile((PCRE2_SPTR)m->pattern, m->len, PCRE2_NEVER_BACKSLASH_C,
                            &code, &at, c);
    pcre2_compile_context_free(c);
    if (m->code == NULL) {
        pcre2_get_error_message(code, why, sizeof why);
        return err_set(eb, ERR_BAD_REQUEST,
                       "regular expression \"%.*s\": %s, at byte %zu",
                       (int)MIN(m->len, 100), m->pattern, (const char *)why, (size_t)at);
    }
    m->limits = pcre2_match_context_create(NULL);
    m->data = pcre2_match_data_create(1, NULL);
    m->workspace = xcalloc(WORKSPACE, sizeof *m->workspace);
    if (m->limits == NULL || m->data == NULL)
        return err_set(eb, ERR_BUSY, "no memory for a regular expression");
    pcre2_set_match_limit(m->limits, WORK_MAX);
    pcre2_set_depth_limit(m->limits, DEPTH_MAX);
    pcre2_set_heap_limit(m->limits, HEAP_KIB);
    return ERR_OK;
}

enum err
shard_match_new(enum shard_match_kind kind, struct span pattern, struct shard_match **out,
                struct errbuf *eb)
{
    struct shard_match *m;
    enum err rc = ERR_OK;

    *out = NULL;
    if (pattern.len > SHARD_PATTERN_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "a pattern of %zu bytes, at most %u",
                       pattern.len, SHARD_PATTERN_MAX);
    m = xcalloc(1, sizeof *m);
    m->kind = kind;
    if (kind == SHARD_MATCH_PREFIX && span_is(pattern, "*"))
        pattern.len = 0;
    m->pattern = xmemdup0(pattern.len > 0 ? pattern.at : "", pattern.len);
    m->len = pattern.len;
    if (kind == SHARD_MATCH_REGEXP)
        rc = match_compile(m, eb);
    if (rc != ERR_OK)
        shard_match_free(&m);
    *out = m;
    return rc;
}

static enum err
match_regexp(struct shard_match *m, struct span name, bool *yes, struct errbuf *eb)
{
    int n = pcre2_dfa_match(m->code, (PCRE2_SPTR)name.at, name.len, 0, PCRE2_DFA_SHORTEST,
                            m->data, m->limits, m->workspace, WORKSPACE);

    assert(m->code != NULL);
    if (n >= 0 || n == PCRE2_ERROR_NOMATCH) {
        *yes = n >= 0;
        return ERR_OK;
    }
    return err_set(eb, ERR_BAD_REQUEST,
                   "regular expression \"%.*s\" is too expensive on the name \"%.*s\"; "
                   "write a simpler one, or use a prefix",
                   (int)MIN(m->len, 80), m->pattern, (int)MIN(name.len, 80), name.at);
}

enum err
shard_match_test(struct shard_match *m, struct span name, bool *yes, struct errbuf *eb)
{
    struct span p = match_pattern(m);

    *yes = false;
    switch (m->kind) {
    case SHARD_MATCH_PREFIX:
        *yes = span_starts(name, p);
        break;
    case SHARD_MATCH_SUFFIX:
        *yes = name.len >= p.len && span_eq(span_from(name, name.len - p.len), p);
        break;
    case SHARD_MATCH_PART:
        *yes = p.len == 0 ||
               (name.len >= p.len && memmem(name.at, name.len, p.at, p.len) != NULL);
        break;
    case SHARD_MATCH_SAMPLE:
        *yes = span_eq(shard_sample_key(name), p);
        break;
    case SHARD_MATCH_EXACT:
        *yes = span_eq(name, p);
        break;
    case SHARD_MATCH_REGEXP:
        return match_regexp(m, name, yes, eb);
    }
    return ERR_OK;
}

void
shard_match_free(struct shard_match **mp)
{
    struct shard_match *m = *mp;

    *mp = NULL;
    if (m == NULL)
        return;
    pcre2_code_free(m->code);
    pcre2_match_context_free(m->limits);
    pcre2_match_data_free(m->data);
    free(m->workspace);
    free(m->pattern);
    free(m);
}
