/* member_glance: the few fields that a read by a row wants of the member which stands there, taken without parsing all of it.
 *
 * It only ever says yes: to a head in the form that member_encode() gives it, whole by the sum over all of it. Whatever looks
 * otherwise is for member_parse(), which says what is wrong. Pure: any thread.
 */
#pragma once
#include "disk/member.h"

struct member_glance {
    uint32_t segment, generation, head_len;
    uint64_t offset, payload, bucket;
    struct span key;
    struct content_id content;
    struct span block_sums; /* spans lie in the window */
};
bool member_glance(struct span window, struct member_glance *out) MUST_CHECK;
