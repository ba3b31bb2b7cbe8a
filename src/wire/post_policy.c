#include "wire/post_policy.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/num.h"

bool
post_policy_is_ignored(struct span name)
{
    return name.len > 9 && strncasecmp(name.at, "x-ignore-", 9) == 0;
}

/* Fields that need no condition. */
static bool
is_free(struct span name)
{
    static const char *const free_names[] = {"policy", "x-amz-signature", "file",
                                             "awsaccesskeyid", "signature"};

    for (size_t i = 0; i < ARRAY_LEN(free_names); i++)
        if (span_case_is(name, free_names[i]))
            return true;
    /* A checksum demands something of the file: it gives the sender nothing. */
    return post_policy_is_ignored(name) ||
           (name.len > 15 && strncasecmp(name.at, "x-amz-checksum-", 15) == 0);
}

static enum err
policy_denied(struct fault *f, const char *what, struct span name)
{
    return fault_set(f, S3_AccessDenied, "Invalid according to Policy: %s%.*s", what,
                     (int)MIN(name.len, 200), name.len > 0 ? name.at : "");
}

static enum err
policy_unreadable(struct fault *f, const char *why)
{
    return fault_set(f, S3_InvalidPolicyDocument, "Invalid Policy: %s", why);
}

struct policy_check {
    struct fields fields;
    struct span bucket, file_type;
    bool covered[POST_POLICY_CONDITIONS]; /* by place in `fields` */
    struct post_policy *out;
    struct fault *fault;
};

static size_t
policy_place_of(const struct policy_check *j, struct span name)
{
    size_t i = 0;

    while (i < j->fields.count &&
           !(j->fields.at[i].name.len == name.len &&
             strncasecmp(j->fields.at[i].name.at, name.at, name.len) == 0))
        i++;
    return i;
}

static bool
policy_holds(struct span have, struct span want, bool prefix)
{
    return prefix ? span_starts(have, want) : span_eq(have, want);
}

/* Each entry of a list of content types must match, as with AWS. */
static bool
each_holds(struct span have, struct span want)
{
    do {
        const char *comma = span_find(have, ',');
        struct span one = {have.at, comma != NULL ? (size_t)(comma - have.at) : have.len};

        have = span_from(have, one.len + 1);
        if (!span_starts(span_trim(one), want))
            return false;
    } while (have.len > 0);
    return true;
}

/* The value that the server uses for this name; absent: empty. */
static struct span
policy_value(const struct policy_check *j, struct span name, size_t at)
{
    if (span_case_is(name, "bucket"))
        return j->bucket;
    if (at < j->fields.count)
        return j->fields.at[at].value;
    return span_case_is(name, "content-type") ? j->file_type : SPAN("");
}

static enum err
policy_condition(struct policy_check *j, struct span name, struct span want, bool prefix)
{
    size_t at = policy_place_of(j, name);
    struct span have = policy_value(j, name, at);

    if (at < j->fields.count)
        j->covered[at] = true;
    if (span_case_is(name, "content-type"))
        j->out->names_content_type = true;
    if (prefix && span_case_is(name, "content-type") ? !each_holds(have, want)
                                                     : !policy_holds(have, want, prefix))
        return policy_denied(j->fault, "Policy Condition failed: the field ", name);
    return ERR_OK;
}

static struct span
policy_text_of(const json_t *v)
{
    return (struct span){json_string_value(v), json_string_length(v)};
}

/* A number, or text that is one. */
static bool
policy_number_of(const json_t *v, uint64_t *out)
{
    if (json_is_string(v))
        return num_u64(policy_text_of(v), out) == ERR_OK;
    if (!json_is_integer(v) || json_integer_value(v) < 0)
        return false;
    *out = (uint64_t)json_integer_value(v);
    return true;
}

/* ["eq", "$key", "x"], ["starts-with", "$key", "x"], ["content-length-range", 1, 10] */
static enum err
policy_listed(struct policy_check *j, const json_t *c)
{
    struct span verb, name;
    bool prefix;

    if (json_array_size(c) != 3 || !json_is_string(json_array_get(c, 0)))
        return policy_unreadable(j->fault,
                                 "a condition is a list of three, or an object");
    verb = policy_text_of(json_array_get(c, 0));
    if (span_case_is(verb, "content-length-range")) {
        uint64_t least, most;

        if (!policy_number_of(json_array_get(c, 1), &least) ||
            !policy_number_of(json_array_get(c, 2), &most))
            return policy_unreadable(j->fault, "content-length-range wants two numbers");
        if (!j->out->has_range || least > j->out->least)
            j->out->least = least;
        if (!j->out->has_range || most < j->out->most)
            j->out->most = most;
        j->out->has_range = true;
        return ERR_OK;
    }
    prefix = span_case_is(verb, "starts-with");
    if (!prefix && !span_case_is(verb, "eq"))
        return policy_unreadable(j->fault, "a condition is eq, starts-with or "
                                           "content-length-range");
    if (!json_is_string(json_array_get(c, 1)) || !json_is_string(json_array_get(c, 2)))
        return policy_unreadable(j->fault, "a condition compares a field with text");
    name = policy_text_of(json_array_get(c, 1));
    if (name.len < 2 || name.at[0] != '$')
        return policy_unreadable(j->fault, "the field of a condition begins with $");
    return policy_condition(j, span_from(name, 1), policy_text_of(json_array_get(c, 2)),
                            prefix);
}

static enum err
policy_conditions(struct policy_check *j, json_t *list)
{
    enum err rc = ERR_OK;
    size_t i;
    json_t *c;

    if (!json_is_array(list))
        return policy_unreadable(j->fault, "conditions are missing");
    if (json_array_size(list) > POST_POLICY_CONDITIONS)
        return policy_unreadable(j->fault, "there are too many conditions");
    for (i = 0; i < json_array_size(list) && rc == ERR_OK; i++) {
        const char *name;
        json_t *v;

        c = json_array_get(list, i);
        if (json_is_array(c)) {
            rc = policy_listed(j, c);
            continue;
        }
        if (!json_is_object(c) || json_object_size(c) != 1)
            return policy_unreadable(j->fault,
                                     "a condition is a list of three, or an object "
                                     "with one member");
        json_object_foreach(c, name, v) rc =
            json_is_string(v)
                ? policy_condition(j, span_of(name), policy_text_of(v), false)
                : policy_unreadable(j->fault, "a condition compares a field with text");
    }
    return rc;
}

/* Conditions look at one value of a name, so a form must not have two. */
static enum err
policy_check_names(const struct policy_check *j)
{
    for (size_t i = 0; i < j->fields.count; i++) {
        struct span name = j->fields.at[i].name;

        if (span_case_is(name, "bucket"))
            return policy_denied(
                j->fault, "the bucket is named by the URL, not by the field ", name);
        if (!post_policy_is_ignored(name) && policy_place_of(j, name) != i)
            return policy_denied(j->fault, "field given more than once: ", name);
    }
    return ERR_OK;
}

static enum err
policy_check_fields(struct policy_check *j, const json_t *doc, int64_t now_s)
{
    const json_t *until = json_object_get(doc, "expiration");
    int64_t until_ms;
    enum err rc;

    if (!json_is_object(doc))
        return policy_unreadable(j->fault, "it is no JSON object");
    if (!json_is_string(until) ||
        date_iso_parse(policy_text_of(until), &until_ms) != ERR_OK)
        return policy_unreadable(j->fault,
                                 "expiration is no date as 2026-11-21T15:16:00Z");
    if (until_ms < now_s * 1000)
        return policy_denied(j->fault, "Policy expired.", SPAN(""));
    rc = policy_check_names(j);
    if (rc == ERR_OK)
        rc = policy_conditions(j, json_object_get(doc, "conditions"));
    for (size_t i = 0; i < j->fields.count && rc == ERR_OK; i++)
        if (!j->covered[i] && !is_free(j->fields.at[i].name))
            rc = policy_denied(j->fault, "Extra input fields: ", j->fields.at[i].name);
    return rc;
}

enum err
post_policy_check(struct span json, const struct post_policy_form *form, int64_t now_s,
                  struct post_policy *out, struct fault *f)
{
    struct policy_check j = {.fields = form->fields,
                             .bucket = form->bucket,
                             .file_type = form->file_type,
                             .out = out,
                             .fault = f};
    json_t *doc;
    enum err rc;

    *out = (struct post_policy){0};
    if (form->fields.count > POST_POLICY_CONDITIONS)
        return fault_set(f, S3_InvalidRequest, "the form has too many fields");
    doc = json_loadb(json.at, json.len, JSON_REJECT_DUPLICATES, NULL);
    rc = doc != NULL ? policy_check_fields(&j, doc, now_s)
                     : policy_unreadable(f, "it is no JSON object");
    json_decref(doc);
    return rc;
}
