#include "wire/etag.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/num.h"

/* ---- entity tags ---- */

struct span
etag_unquote(struct span text)
{
    struct span s = span_trim(text);

    if (span_starts(s, SPAN("W/")))
        s = span_from(s, 2);
    if (s.len >= 2 && s.at[0] == '"' && s.at[s.len - 1] == '"')
        s = (struct span){s.at + 1, s.len - 2};
    return s;
}

size_t
etag_text(const unsigned char md5[16], unsigned parts, char out[ETAG_TEXT_MAX])
{
    int more = 0;

    hex_encode(md5, 16, out);
    if (parts > 0)
        more = snprintf(out + 32, ETAG_TEXT_MAX - 32, "-%u", parts);
    assert(more >= 0 && more < ETAG_TEXT_MAX - 32);
    return 32 + (size_t)more;
}

bool
etag_parse(struct span text, unsigned char md5[16], unsigned *parts)
{
    struct span tail = span_from(text, 33);
    uint64_t n;

    *parts = 0;
    if (text.len < 32 || hex_decode(text.at, 32, md5, 16) != 16)
        return false;
    if (text.len == 32)
        return true;
    if (text.at[32] != '-' || tail.len == 0 || tail.at[0] == '0' ||
        num_u64(tail, &n) != ERR_OK || n > ETAG_PARTS_MAX)
        return false;
    *parts = (unsigned)n;
    return true;
}

/* Commas divide, but not inside quotes. */
static struct span
next_in_list(struct span *list)
{
    bool quoted = false;
    size_t i = 0;
    struct span one;

    while (i < list->len && (quoted || list->at[i] != ',')) {
        quoted = quoted != (list->at[i] == '"');
        i++;
    }
    one = (struct span){list->at, i};
    *list = span_from(*list, i + 1);
    return one;
}

bool
etag_in_list(struct span list, struct span etag)
{
    if (span_is(span_trim(list), "*"))
        return true;
    while (list.len > 0) {
        struct span one = etag_unquote(next_in_list(&list));

        if (one.len > 0 && span_eq(one, etag))
            return true;
    }
    return false;
}

void
etag_multipart_init(struct etag_multipart *m)
{
    *m = (struct etag_multipart){0};
    digest_init(&m->digest, DIGEST_MD5);
}

void
etag_multipart_add(struct etag_multipart *m, const unsigned char md5[16])
{
    digest_add(&m->digest, md5, 16);
    m->parts++;
}

size_t
etag_multipart_end(struct etag_multipart *m, unsigned char md5[16],
                   char out[ETAG_TEXT_MAX])
{
    unsigned char sum[DIGEST_MAX];

    digest_end(&m->digest, sum);
    memcpy(md5, sum, 16);
    return etag_text(md5, m->parts, out);
}

/* ---- conditional reads ---- */

static enum err
precondition_failed(struct fault *f, const char *condition)
{
    fault_set(f, S3_PreconditionFailed, NULL);
    fault_add(f, "Condition", span_of(condition));
    return ERR_PRECONDITION;
}

enum err
preconditions_check(const struct conditions *c, struct span etag, int64_t mtime_s,
                    int64_t now_s, struct fault *f)
{
    int64_t when;

    if (c->if_match.at != NULL) {
        if (!etag_in_list(c->if_match, etag))
            return precondition_failed(f, "If-Match");
    } else if (c->if_unmodified_since.at != NULL &&
               date_http_parse(c->if_unmodified_since, &when) == ERR_OK &&
               mtime_s > when) {
        return precondition_failed(f, "If-Unmodified-Since");
    }

    if (c->if_none_match.at != NULL) {
        if (etag_in_list(c->if_none_match, etag))
            return fault_set(f, S3_NotModified, NULL);
    } else if (c->if_modified_since.at != NULL &&
               date_http_parse(c->if_modified_since, &when) == ERR_OK && when <= now_s &&
               mtime_s <= when) {
        return fault_set(f, S3_NotModified, NULL);
    }
    return ERR_OK;
}

bool
if_range_holds(struct span value, struct span etag, int64_t mtime_s)
{
    struct span v = span_trim(value);
    int64_t when;

    if (value.at == NULL)
        return true;
    if (span_starts(v, SPAN("W/"))) /* a weak tag never matches here: RFC 9110, 13.1.5 */
        return false;
    if (date_http_parse(v, &when) == ERR_OK)
        return mtime_s == when;
    return span_eq(etag_unquote(v), etag);
}
