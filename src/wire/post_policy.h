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
    bool names_content_type; /* a condition names content-type */
};

/* What a form says. `fields`: as the client sent them, names in lower case, without `bucket`. */
struct post_policy_form {
    struct fields fields;
    struct span bucket; /* of the request: what the object is stored in */
    struct span
        file_type; /* Content-Type of the file's own part: checked as content-type where no such field is; empty: none */
};

/* Checks a form by the policy's JSON. Conditions apply to the values that the server uses: a name that the form gives twice, in any case, is
 * refused. 403 AccessDenied says which condition failed, which field no condition covers or is repeated, or that the policy is
 * over; 400 InvalidPolicyDocument: it cannot be read. The file's own type needs no condition: without one
 * (!names_content_type) the caller does not store it. */
enum err post_policy_check(struct span json, const struct post_policy_form *form,
                           int64_t now_s, struct post_policy *out,
                           struct fault *f) MUST_CHECK;
/* True for names that mean nothing here, and may be given more than once: x-ignore-... */
bool post_policy_is_ignored(struct span name);
