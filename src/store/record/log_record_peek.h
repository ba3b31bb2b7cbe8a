/* log_record_peek: the few fields that a read by an entry wants of the record which stands there, taken without parsing all of it.
 *
 * It only ever says yes: to a head in the form that log_record_encode() gives it, whole by the sum over all of it. Whatever looks
 * otherwise is for log_record_parse(), which says what is wrong. Pure: any thread.
 */
#pragma once
#include "store/record/log_record.h"
#include "store/store_entry.h"

struct log_record_peek {
    uint32_t segment, generation, head_len;
    uint64_t offset, payload, bucket;
    struct span key;
    struct content_id content;
    struct span block_sums; /* spans lie in the window */
};
bool log_record_peek(struct span window, struct log_record_peek *out) MUST_CHECK;
