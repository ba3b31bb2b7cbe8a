/* What a scrub knows of itself as bytes: one record of wire/record.h with a table of its own. */
#include <assert.h>
#include <string.h>

#include "store/scrub/scrub.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "wire/record.h"

#define KIND    96
#define VERSION 1

enum {
    F_RUNNING = 1,
    F_BUCKET = 2,
    F_KEY = 3,
    F_EPOCH = 4,
    F_COUNTER = 5,
    F_ASKED = 6,
    F_PASS = 16, /* and the next ones, as in pass_fields[] */
    F_LAST = 32,
    F_FINDING = 64,
};
/* In this order from F_PASS and F_LAST on. */
static const size_t pass_fields[] = {
    offsetof(struct scrub_pass, number),   offsetof(struct scrub_pass, began_ms),
    offsetof(struct scrub_pass, ended_ms), offsetof(struct scrub_pass, objects),
    offsetof(struct scrub_pass, parts),    offsetof(struct scrub_pass, bytes),
    offsetof(struct scrub_pass, findings), offsetof(struct scrub_pass, repaired),
};
#define PASS_FIELDS (sizeof pass_fields / sizeof pass_fields[0])
/* be64 pass | be64 when | be64 bucket | be32 part | be64 block | u8 outcome | u8 length of what | what | key */
#define FINDING_HEAD 38u

static uint64_t *
field_of(struct scrub_pass *p, size_t i)
{
    assert(i < PASS_FIELDS);
    return (uint64_t *)(void *)((char *)p + pass_fields[i]);
}

static void
put_pass(struct record_writer *w, uint8_t first, const struct scrub_pass *p)
{
    struct scrub_pass copy = *p;

    for (size_t i = 0; i < PASS_FIELDS; i++)
        record_put_u64(w, (uint8_t)(first + i), *field_of(&copy, i));
}

static unsigned char *
scrub_state_put_be(unsigned char *at, uint64_t n, unsigned bytes)
{
    assert(bytes > 0);
    assert(bytes <= 8);
    for (unsigned i = 0; i < bytes; i++)
        at[i] = (unsigned char)(n >> (8 * (bytes - 1 - i)));
    return at + bytes;
}

static void
put_finding(struct record_writer *w, const struct scrub_finding *f)
{
    unsigned char bytes[FINDING_HEAD + sizeof f->what + STORE_KEY_MAX], *at = bytes;
    size_t what = strlen(f->what);

    assert(what < sizeof f->what);
    assert(f->key_len <= sizeof f->key);
    at = scrub_state_put_be(at, f->pass, 8);
    at = scrub_state_put_be(at, (uint64_t)f->found_ms, 8);
    at = scrub_state_put_be(at, f->bucket, 8);
    at = scrub_state_put_be(at, f->part, 4);
    at = scrub_state_put_be(at, f->block, 8);
    at = scrub_state_put_be(at, (uint64_t)f->outcome, 1);
    at = scrub_state_put_be(at, what, 1);
    memcpy(at, f->what, what);
    memcpy(at + what, f->key, f->key_len);
    record_put_span(w, F_FINDING,
                    (struct span){(char *)bytes, FINDING_HEAD + what + f->key_len});
}

void
scrub_encode(const struct scrub_state *s, const struct scrub_finding *findings,
             uint32_t count, struct buf *out)
{
    struct record_writer w;

    assert(s->key_len <= sizeof s->key);
    assert(count == 0 || findings != NULL);
    record_begin(&w, out, KIND, VERSION);
    record_put_u64(&w, F_RUNNING, s->running);
    record_put_u64(&w, F_BUCKET, s->bucket);
    record_put_span(&w, F_KEY, (struct span){s->key, s->key_len});
    record_put_u64(&w, F_EPOCH, s->version.epoch);
    record_put_u64(&w, F_COUNTER, s->version.counter);
    record_put_u64(&w, F_ASKED, s->asked);
    put_pass(&w, F_PASS, &s->pass);
    put_pass(&w, F_LAST, &s->last);
    for (uint32_t i = 0; i < count; i++)
        put_finding(&w, &findings[i]);
    record_end(&w);
}

static bool
take_finding(struct span v, struct scrub_finding *f)
{
    struct cursor c = cursor_of(v.at, v.len);
    uint64_t outcome, what;

    *f = (struct scrub_finding){0};
    f->pass = take_be(&c, 8);
    f->found_ms = (int64_t)take_be(&c, 8);
    f->bucket = take_be(&c, 8);
    f->part = (uint32_t)take_be(&c, 4);
    f->block = take_be(&c, 8);
    outcome = take_be(&c, 1);
    what = take_be(&c, 1);
    if (c.bad || outcome > FINDING_DROPPED || what >= sizeof f->what ||
        what > cursor_left(&c) || cursor_left(&c) - what > sizeof f->key ||
        memchr(c.at, '\0', what) != NULL)
        return false;
    f->outcome = (enum store_outcome)outcome;
    memcpy(f->what, c.at, what);
    f->key_len = cursor_left(&c) - what;
    memcpy(f->key, (const char *)c.at + what, f->key_len);
    return true;
}

/* A number that may belong to one of the passes. */
static void
take_pass(struct scrub_state *s, uint8_t id, uint64_t n)
{
    if (id >= F_PASS && id < F_PASS + PASS_FIELDS)
        *field_of(&s->pass, (size_t)id - F_PASS) = n;
    else if (id >= F_LAST && id < F_LAST + PASS_FIELDS)
        *field_of(&s->last, (size_t)id - F_LAST) = n;
}

static bool
take_field(struct scrub_state *s, uint8_t id, struct span v)
{
    uint64_t n;

    if (id == F_KEY) {
        if (v.len > sizeof s->key)
            return false;
        memset(s->key, 0, sizeof s->key); /* nothing of one that stood there before */
        memcpy(s->key, v.at, v.len);
        s->key_len = v.len;
        return true;
    }
    if (record_u64(v, &n) != ERR_OK)
        return id > F_LAST + PASS_FIELDS; /* unknown ones may be anything */
    switch (id) {
    case F_RUNNING:
        s->running = n != 0;
        return n <= 1;
    case F_ASKED:
        s->asked = n != 0;
        return n <= 1;
    case F_BUCKET:
        s->bucket = n;
        return true;
    case F_EPOCH:
        s->version.epoch = n;
        return true;
    case F_COUNTER:
        s->version.counter = n;
        return true;
    default:
        take_pass(s, id, n); /* another one is of a later version: skipped */
        return true;
    }
}

enum err
scrub_decode(struct span bytes, struct scrub_state *s, struct scrub_finding *findings,
             uint32_t room, uint32_t *count, struct errbuf *eb)
{
    struct record r;
    struct span value;
    uint8_t id;
    enum err rc = record_open(bytes, &r, eb);

    *s = (struct scrub_state){0};
    *count = 0;
    if (rc != ERR_OK)
        return rc;
    if (r.kind != KIND || r.version != VERSION)
        return err_set(
            eb, ERR_CORRUPT,
            "the state of the scrub is of kind %u, version %u; this program reads "
            "%u, %u",
            r.kind, r.version, KIND, VERSION);
    while (record_next(&r, &id, &value)) {
        bool good = true;

        if (id == F_FINDING) {
            good = *count >= room || take_finding(value, &findings[*count]);
            *count += good && *count < room;
        } else {
            good = take_field(s, id, value);
        }
        if (!good) {
            *s = (struct scrub_state){0};
            *count = 0;
            return err_set(eb, ERR_CORRUPT, "field %u of the scrub's state is wrong", id);
        }
    }
    return ERR_OK;
}
