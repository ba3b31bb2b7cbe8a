/* form_auth: which user signed the policy of a form, by Signature Version 4 or 2.
 *
 * Version 2 is for old pages and libraries, and only here: a form is good for what its policy says, until the policy
 * expires, with either version. Requests and presigned URLs need Version 4. */
#include <assert.h>
#include <string.h>

#include "api/s3/s3.h"
#include "base/hash.h"
#include "base/mem.h"
#include "rt/loop.h"

#define SIGNATURE_V2_LEN BASE64_LEN(20)

static const char *const names_v4[] = {"policy", "x-amz-algorithm", "x-amz-credential",
                                       "x-amz-date", "x-amz-signature"};
static const char *const names_v2[] = {"policy", "awsaccesskeyid", "signature"};

static bool
has_any_field(struct fields form, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fields_get(form, names[i]).at != NULL)
            return true;
    return false;
}

bool
s3_form_is_signed(struct fields form)
{
    return has_any_field(form, names_v4, ARRAY_LEN(names_v4)) ||
           has_any_field(form, names_v2, ARRAY_LEN(names_v2));
}

static enum err
demand_fields(struct request *q, struct fields form, const char *const *names,
              size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fields_get(form, names[i]).len == 0)
            return fault_argument(&q->fault, names[i], SPAN(""),
                                  "Bucket POST must contain a field named '%s'. If it is "
                                  "specified, please check the order of the fields.",
                                  names[i]);
    return ERR_OK;
}

/* `right` is what the key makes of the policy. */
static enum err
compare_signature(struct request *q, struct fields form, const char *field,
                  struct span right)
{
    struct span claimed = fields_get(form, field);

    if (claimed.len == right.len && hash_same_secret(claimed.at, right.at, right.len))
        return ERR_OK;
    fault_set(&q->fault, S3_SignatureDoesNotMatch, NULL);
    fault_add(&q->fault, "AWSAccessKeyId", q->caller.auth.access_key);
    fault_add(&q->fault, "StringToSign", fields_get(form, "policy"));
    fault_add(&q->fault, "SignatureProvided", claimed);
    return ERR_DENIED;
}

static enum err
check_v4(struct request *q, struct fields form, const struct auth_key **k, int64_t *now_s)
{
    struct hmac_key key;
    char signature[SHA256_HEX + 1];
    enum err rc = demand_fields(q, form, names_v4, ARRAY_LEN(names_v4));

    if (rc == ERR_OK && !span_is(fields_get(form, "x-amz-algorithm"), "AWS4-HMAC-SHA256"))
        rc = fault_argument(&q->fault, "x-amz-algorithm",
                            fields_get(form, "x-amz-algorithm"),
                            "Only AWS4-HMAC-SHA256 is supported");
    if (rc == ERR_OK)
        rc = sigv4_parse_credential(fields_get(form, "x-amz-credential"),
                                    fields_get(form, "x-amz-date"), &q->caller.auth,
                                    &q->fault);
    q->caller.auth.token = fields_get(form, "x-amz-security-token");
    if (rc == ERR_OK)
        rc = s3_find_key(q, k, now_s);
    if (rc != ERR_OK)
        return rc;
    sigv4_key(q->api->keys[rt_loop_index()], span_of((*k)->secret), q->caller.auth.day,
              q->caller.auth.region, &key);
    sigv4_hex(&key, fields_get(form, "policy"), signature);
    hash_wipe(&key, sizeof key);
    return compare_signature(q, form, "x-amz-signature", span_of(signature));
}

static enum err
check_v2(struct request *q, struct fields form, const struct auth_key **k, int64_t *now_s)
{
    struct span policy = fields_get(form, "policy");
    unsigned char mac[20];
    char signature[SIGNATURE_V2_LEN + 1];
    enum err rc = demand_fields(q, form, names_v2, ARRAY_LEN(names_v2));

    q->caller.auth =
        (struct sigv4_auth){.kind = SIGV4_QUERY,
                            .access_key = fields_get(form, "awsaccesskeyid"),
                            .token = fields_get(form, "x-amz-security-token")};
    if (rc == ERR_OK)
        rc = s3_find_key(q, k, now_s);
    if (rc != ERR_OK)
        return rc;
    hash_hmac_sha1((*k)->secret, strlen((*k)->secret), policy.at, policy.len, mac);
    (void)base64_encode(mac, sizeof mac, signature);
    return compare_signature(q, form, "signature", span_of(signature));
}

enum err
s3_form_identify(struct request *q, struct fields form, int64_t *now_s)
{
    bool v2 = has_any_field(form, names_v2 + 1, ARRAY_LEN(names_v2) - 1);
    bool v4 = has_any_field(form, names_v4 + 1, ARRAY_LEN(names_v4) - 1);
    const struct auth_key *k = NULL;
    enum err rc;

    assert(s3_form_is_signed(form));
    if (v2 && v4)
        return fault_argument(&q->fault, "AWSAccessKeyId",
                              fields_get(form, "awsaccesskeyid"),
                              "Only one auth mechanism allowed; the form has a signature "
                              "of Version 2 and one of Version 4");
    rc = v2 ? check_v2(q, form, &k, now_s) : check_v4(q, form, &k, now_s);
    assert((rc == ERR_OK) == (q->fault.code == S3_OK));
    assert(rc != ERR_OK || k != NULL);
    if (rc == ERR_OK)
        gate_admit_key(q, k);
    return rc;
}
