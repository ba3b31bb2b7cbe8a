/* s3policy: the policy of a bucket: parsed from JSON (version 2012-10-17 or 2008-10-17 of the policy language), and evaluated.
 *
 * Built: Effect Allow and Deny; Principal "*", a user's name, ARN (arn:aws:iam::ACCOUNT:user/NAME) or access key id;
 * Action, Resource and NotResource, NotAction with the wildcards * and ?; conditions of the table in s3policy.c with
 * IfExists. Refused by name: NotPrincipal, principals that are services, what is in no table.
 * A policy is immutable; any thread may evaluate it. It owns its memory.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define S3POLICY_BYTES_MAX (20u << 10) /* as AWS */
#define S3POLICY_NESTING   16u

struct s3policy;

/* ERR_BAD_REQUEST: the sentence names what is wrong. `bucket`: every resource must be this bucket, or in it. */
enum err s3policy_parse(struct span json, struct span bucket, struct s3policy **out,
                        struct errbuf *eb) MUST_CHECK;
void s3policy_free(struct s3policy **pp); /* NULL is fine */

/* True if some statement allows everybody, without a condition that narrows who that is: it is public. */
bool s3policy_is_public(const struct s3policy *p);
/* True if a condition asks for the tags of the object that is there (s3:ExistingObjectTag/...). */
bool s3policy_asks_tags(const struct s3policy *p);
/* True if one asks for the tags that the request gives (s3:RequestObjectTag/...). */
bool s3policy_asks_request_tags(const struct s3policy *p);

/* The value of a condition key in the request that is evaluated, lower case: "aws:sourceip", "s3:prefix",
 * "s3:existingobjecttag/NAME" (its NAME unchanged). False: the request has none. */
typedef bool s3policy_value(void *arg, struct span key, struct span *value);
struct s3policy_request {
    struct span user, access_key; /* NULL `at`: anonymous */
    const char *action;           /* "s3:GetObject" */
    struct span bucket, key;      /* key.len 0: the bucket itself */
    s3policy_value *value;
    void *arg;
};
enum s3policy_verdict { S3POLICY_SILENT, S3POLICY_ALLOW, S3POLICY_DENY };
/* A Deny that applies wins over every Allow. `ignore_public`: statements that allow everybody allow nothing. */
enum s3policy_verdict s3policy_evaluate(const struct s3policy *p,
                                        const struct s3policy_request *r,
                                        bool ignore_public);
