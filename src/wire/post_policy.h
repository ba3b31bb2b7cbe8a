/* post_policy: the policy of a browser's form upload (SigV4): until when, and what the fields may be. Pure. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "wire/fault.h"
#include "wire/field.h"

#define POST_POLICY_MAX        (32u << 10) /* base64 */
#define POST_POLICY_CONDITIONS 200

struct post_policy {
    bool has_range; /* content-length-range */
    uint64_t least, most;
};
/* Checks `fields` (names in lower case; `bucket` and `key` among them as they are meant) by the policy's JSON. 403
 * AccessDenied says which condition failed, which field no condition covers, or that it is over; 400
 * InvalidPolicyDocument: it cannot be read. */
enum err post_policy_check(struct span json, struct fields fields, int64_t now_s,
                           struct post_policy *out, struct fault *f) MUST_CHECK;
