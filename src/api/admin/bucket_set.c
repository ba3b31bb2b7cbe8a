/* bucket_set: settings of a bucket that S3 has no words for. A member is a row of the table; an unknown one is refused. */
#include <stdlib.h>
#include <string.h>

#include "api/admin/admin.h"
#include "base/mem.h"
#include "wire/s3name.h"

#define BODY_MAX KIB(4)

static enum err
set_anonymous_read(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    if (!json_is_boolean(v))
        return err_set(eb, ERR_BAD_REQUEST, "\"anonymous_read\" is true or false");
    b->anonymous_read = json_is_true(v);
    return ERR_OK;
}

/* A whole number from 1 on. */
static enum err
copies_of(const struct map_bucket *b, const char *name, const json_t *v, unsigned *out,
          struct errbuf *eb)
{
    json_int_t n = json_integer_value(v);

    if (b->cached)
        return err_set(eb, ERR_BAD_REQUEST,
                       "an attached bucket has no copies: its objects are at the remote");
    if (!json_is_integer(v) || n < 1 || n > DISKS_COPIES_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" is a number from 1 to %u", name,
                       DISKS_COPIES_MAX);
    *out = (unsigned)n;
    return ERR_OK;
}

/* Where fewer than min_copies are wanted, min_copies falls to that. */
static enum err
set_copies(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    enum err rc = copies_of(b, "copies", v, &b->copies, eb);

    b->min_copies = MIN(b->min_copies, b->copies);
    return rc;
}

static enum err
set_min_copies(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    return copies_of(b, "min_copies", v, &b->min_copies, eb);
}

/* 0: none. */
static enum err
quota_of(const struct map_bucket *b, const char *name, const json_t *v, uint64_t *out,
         struct errbuf *eb)
{
    json_int_t n = json_integer_value(v);

    if (b->cached)
        return err_set(eb, ERR_BAD_REQUEST,
                       "an attached bucket has no quota: its objects are at the remote");
    if (!json_is_integer(v) || n < 0)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" is a number; 0 takes the quota away",
                       name);
    *out = (uint64_t)n;
    return ERR_OK;
}

static enum err
set_quota_bytes(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    return quota_of(b, "quota_bytes", v, &b->quota_bytes, eb);
}

static enum err
set_quota_objects(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    return quota_of(b, "quota_objects", v, &b->quota_objects, eb);
}

static enum err
set_cache_budget(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    json_int_t n = json_integer_value(v);

    if (!b->cached)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "only an attached bucket has a cache budget: a native one is kept");
    if (!json_is_integer(v) || n < 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"cache_budget\" is a number of bytes; 0 takes it away");
    b->cache_budget = (uint64_t)n;
    return ERR_OK;
}

static enum err
bucket_set_ttl(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    json_int_t n = json_integer_value(v);

    if (!b->cached)
        return err_set(eb, ERR_BAD_REQUEST,
                       "only an attached bucket has a time to live: a native one has no "
                       "other truth");
    if (!json_is_integer(v) || n < 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"ttl_ms\" is a number of milliseconds; 0 takes it away");
    b->ttl_ms = (uint64_t)n;
    return ERR_OK;
}

static enum err
set_upload_ttl(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    json_int_t n = json_integer_value(v);

    if (b->cached)
        return err_set(eb, ERR_BAD_REQUEST,
                       "uploads of an attached bucket are its remote's: set a lifecycle "
                       "rule there");
    if (!json_is_integer(v) || n < 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"upload_ttl_ms\" is a number of milliseconds; 0 takes it away");
    b->upload_ttl_ms = (uint64_t)n;
    return ERR_OK;
}

static enum err
set_fail_stale(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    if (!b->cached || !json_is_boolean(v))
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"fail_stale\" is true or false, of an attached bucket");
    b->fail_stale = json_is_true(v);
    return ERR_OK;
}

/* A prefix of keys, as text without a NUL. */
static enum err
bucket_set_prefix_of(const struct map_bucket *b, const char *name, const json_t *v,
                     const char **out, struct errbuf *eb)
{
    *out = json_string_value(v);
    if (!b->cached)
        return err_set(eb, ERR_BAD_REQUEST,
                       "only an attached bucket has pins: a native one is never evicted");
    if (*out == NULL || json_string_length(v) > OBJECT_KEY_MAX)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" is a prefix of at most %u bytes",
                       name, OBJECT_KEY_MAX);
    return ERR_OK;
}

static unsigned
pin_at(const struct map_bucket *b, const char *prefix)
{
    unsigned i = 0;

    while (i < b->pin_count && strcmp(b->pins[i], prefix) != 0)
        i++;
    return i;
}

static enum err
set_pin(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    size_t bytes = 0;
    const char *prefix;
    enum err rc = bucket_set_prefix_of(b, "pin", v, &prefix, eb);

    if (rc != ERR_OK || pin_at(b, prefix) < b->pin_count)
        return rc;
    for (unsigned i = 0; i < b->pin_count; i++)
        bytes += strlen(b->pins[i]);
    if (b->pin_count == MAP_PINS_MAX || bytes + strlen(prefix) > MAP_PIN_BYTES)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a bucket has at most %u pins of %u bytes together; unpin some",
                       MAP_PINS_MAX, MAP_PIN_BYTES);
    if (b->pins == NULL)
        b->pins = xcalloc(MAP_PINS_MAX, sizeof *b->pins);
    b->pins[b->pin_count++] = xstrdup(prefix);
    return ERR_OK;
}

static enum err
set_unpin(struct map_bucket *b, const json_t *v, struct errbuf *eb)
{
    const char *prefix;
    enum err rc = bucket_set_prefix_of(b, "unpin", v, &prefix, eb);
    unsigned i;

    if (rc != ERR_OK)
        return rc;
    i = pin_at(b, prefix);
    if (i == b->pin_count)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" is not pinned", prefix);
    free(b->pins[i]);
    b->pin_count--;
    memmove(&b->pins[i], &b->pins[i + 1], (b->pin_count - i) * sizeof *b->pins);
    return ERR_OK;
}

static const struct setting {
    const char *name;
    enum err (*set)(struct map_bucket *b, const json_t *v, struct errbuf *eb);
} members[] = {
    {"anonymous_read", set_anonymous_read},
    {"copies", set_copies},
    {"min_copies", set_min_copies},
    {"quota_bytes", set_quota_bytes},
    {"quota_objects", set_quota_objects},
    {"cache_budget", set_cache_budget},
    {"ttl_ms", bucket_set_ttl},
    {"upload_ttl_ms", set_upload_ttl},
    {"fail_stale", set_fail_stale},
    {"pin", set_pin},
    {"unpin", set_unpin},
};

static enum err
set_all(struct map_bucket *b, void *arg, struct errbuf *eb)
{
    json_t *doc = arg;
    const char *name;
    json_t *v;

    json_object_foreach(doc, name, v)
    {
        size_t i = 0;
        enum err rc;

        while (i < ARRAY_LEN(members) && strcmp(members[i].name, name) != 0)
            i++;
        rc = i < ARRAY_LEN(members) ? members[i].set(b, v, eb)
                                    : err_set(eb, ERR_BAD_REQUEST,
                                              "a bucket has no setting \"%.60s\"", name);
        if (rc != ERR_OK)
            return rc;
    }
    if (b->min_copies > MAX(b->copies, 1u))
        return err_set(eb, ERR_BAD_REQUEST, "min_copies %u is more than copies %u",
                       b->min_copies, MAX(b->copies, 1u));
    return ERR_OK;
}

/* More copies than disks would refuse every write. The record may say so where other settings change, if a disk has gone. */
static enum err
enough_disks(const struct request *q, const json_t *doc, struct errbuf *eb)
{
    const json_t *copies = json_object_get(doc, "copies");
    const json_t *least = json_object_get(doc, "min_copies");
    json_int_t wanted = json_integer_value(least != NULL ? least : copies);
    struct disks *ds = q->api->options.disks;
    struct disks_status *now;
    unsigned active = 0;

    if (ds == NULL || (copies == NULL && least == NULL))
        return ERR_OK;
    now = xcalloc(1, sizeof *now);
    disks_status(ds, now);
    for (unsigned i = 0; i < now->count; i++)
        active += strcmp(now->disks[i].state, "active") == 0;
    free(now);
    if (wanted <= (json_int_t)active)
        return ERR_OK;
    return err_set(
        eb, ERR_BAD_REQUEST,
        "%u of the node's disks take%s objects, and each write would want %lld: "
        "add disks first, or say a min_copies that they are enough for",
        active, active == 1 ? "s" : "", (long long)wanted);
}

/* While `copies` changes, no object counts as placed where it should be; rebalancing places them afterwards. */
enum err
admin_bucket_change(struct request *q, json_t *doc, char job[JOB_ID_TEXT],
                    struct errbuf *eb)
{
    struct disks *ds = q->api->options.disks;
    const json_t *copies = json_object_get(doc, "copies");
    bool moves = copies != NULL && ds != NULL;
    uint64_t copied = moves ? disks_copied_bytes(ds) : 0;
    enum err rc = enough_disks(q, doc, eb);

    if (rc == ERR_OK && moves)
        rc = disks_hold(ds, eb);
    if (rc != ERR_OK)
        return rc;
    rc = change_bucket(q, q->bucket, set_all, doc, eb);
    if (moves)
        disks_release(ds);
    if (moves && rc == ERR_OK)
        admin_job_report(q, "copies",
                         json_pack("{s:s,s:I,s:I}", "bucket", q->bucket->name, "copies",
                                   json_integer_value(copies), "copied",
                                   (json_int_t)copied),
                         job);
    return rc;
}

/* What would stand there; nothing is stored. */
static enum err
rehearse(struct request *q, const struct map_bucket *b, json_t *doc,
         struct map_bucket **out, struct errbuf *eb)
{
    enum err rc = enough_disks(q, doc, eb);

    if (rc == ERR_OK)
        rc = map_bucket_copy(b, out, eb);
    return rc == ERR_OK ? set_all(*out, doc, eb) : rc;
}

static enum err
bucket_set_answer(struct request *q, const struct map_bucket *b, const char *job)
{
    struct admin_page page;

    admin_page_begin(&page, KIB(64));
    admin_put_bucket_and_job(&page.j, b, job);
    return admin_page_answer(q, &page, 200);
}

enum err
admin_bucket_set(struct request *q)
{
    const struct map_bucket *b;
    struct map_bucket *would = NULL;
    struct errbuf eb = {{0}};
    char job[JOB_ID_TEXT] = "";
    json_t *doc = NULL;
    enum err rc = admin_read_bucket(q, BODY_MAX, &doc);
    bool dry;

    if (rc != ERR_OK)
        return rc;
    rc = admin_is_dry(q, doc, &dry);
    if (rc != ERR_OK) {
        json_decref(doc);
        return rc;
    }
    rc = dry ? rehearse(q, q->bucket, doc, &would, &eb)
             : admin_bucket_change(q, doc, job, &eb);
    json_decref(doc);
    if (rc != ERR_OK) {
        rc = fault_from(q, rc, &eb);
    } else {
        b = dry ? would
                : map_bucket_find(map_now(q->api->options.map),
                                  span_of(q->bucket->uname));
        rc = bucket_set_answer(q, b != NULL ? b : q->bucket, job);
    }
    map_bucket_drop((const struct map_bucket **)&would);
    return rc;
}
