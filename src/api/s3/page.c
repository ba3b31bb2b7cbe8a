/* page: what every listing asks for and repeats in its answer. */
#include "api/s3/s3.h"

enum err
s3_page_query(struct request *q, const char *max_name, struct s3_page_query *p)
{
    struct span encoding = query_get(&q->query, "encoding-type");
    enum err rc =
        query_u64(&q->query, max_name, S3_PAGE_MAX, 0, INT32_MAX, &p->max, &q->fault);

    if (rc != ERR_OK)
        return rc;
    if (encoding.len > 0 && !span_is(encoding, "url"))
        return fault_argument(&q->fault, "encoding-type", encoding,
                              "Invalid Encoding Method specified in Request");
    p->url = encoding.len > 0;
    p->max = MIN(p->max, S3_PAGE_MAX);
    p->prefix = query_get(&q->query, "prefix");
    p->delimiter = query_get(&q->query, "delimiter");
    if (p->prefix.len > S3_KEY_MAX || p->delimiter.len > S3_KEY_MAX)
        return s3_fault(q, S3_KeyTooLongError);
    return ERR_OK;
}

void
s3_put_page_query(struct xml *x, const char *max_name, const struct s3_page_query *p)
{
    xml_key(x, "Prefix", p->prefix, p->url);
    if (p->delimiter.len > 0)
        xml_key(x, "Delimiter", p->delimiter, p->url);
    xml_u64(x, max_name, p->max);
    if (p->url)
        xml_text(x, "EncodingType", "url");
}

void
s3_put_common_prefix(struct xml *x, struct span prefix, const struct s3_page_query *p)
{
    xml_open(x, "CommonPrefixes");
    xml_key(x, "Prefix", prefix, p->url);
    xml_close(x);
}
