/* answer: what every operation needs at its end and its beginning. */
#include "api/s3/s3.h"

enum err
s3_fault(struct request *q, enum s3_code code)
{
    return fault_set(&q->fault, code, NULL);
}

enum err
s3_find_bucket(struct request *q)
{
    const struct map_bucket *b =
        map_bucket_find(map_now(q->api->options.map), q->name.bucket);

    if (b == NULL)
        return s3_fault(q, S3_NoSuchBucket);
    q->bucket = map_bucket_ref(b);
    return ERR_OK;
}

enum err
s3_answer_xml(struct request *q, const struct buf *body)
{
    if (body->full)
        return fault_set(&q->fault, S3_InternalError,
                         "The answer is over its limit of %zu bytes", body->limit);
    put_ids(q);
    http_header(q->http, "content-type", SPAN("application/xml"));
    http_reply(q->http, 200, buf_span(body));
    return ERR_OK;
}

enum err
s3_answer_empty(struct request *q, int status)
{
    put_ids(q);
    http_reply(q->http, status, (struct span){"", 0});
    return ERR_OK;
}
