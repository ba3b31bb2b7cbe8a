/* Any bytes as a form, as a policy, as a CORS document; the first byte chooses. A form's events are the same at every way
 * its bytes come; a CORS document that is read is written and reads the same. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "wire/cors.h"
#include "wire/form.h"
#include "wire/post_policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A sum over everything that comes out; pieces of a body count as one. */
static uint64_t
read_form(const char *body, size_t len, size_t step)
{
    size_t fed = 0, used = 0, events = 0;
    uint64_t sum = 0;
    struct form f;

    form_begin(&f, SPAN("XX"));
    for (;;) {
        struct span in = {body + used, fed - used}, piece;
        enum form_event e = form_next(&f, &in, fed == len, &piece);

        assert(events++ <= 4 * len + FORM_PARTS_MAX * 4 + 16);
        assert(in.at == NULL || in.len == 0 ||
               (in.at >= body && in.at + in.len <= body + fed));
        used = in.len == 0 ? fed : (size_t)(in.at - body);
        if (e == FORM_MORE) {
            assert(fed < len);
            assert(fed - used < FORM_ROOM); /* the caller's buffer is enough */
            fed += MIN(step, len - fed);
            continue;
        }
        if (e == FORM_PART) {
            sum = hash_xxh3(f.name.at, f.name.len, sum);
            sum = hash_xxh3(f.filename.at, f.filename.len, sum);
        }
        for (size_t i = 0; e == FORM_DATA && i < piece.len; i++)
            sum = sum * 31 + (unsigned char)piece.at[i];
        if (e == FORM_BAD) {
            assert(f.why != NULL);
            return 1; /* how far the body went before depends on the split */
        }
        if (e == FORM_END)
            return sum ^ 2;
    }
}

static void
policy(const char *at, size_t len)
{
    struct field fields[] = {{SPAN("key"), SPAN("k")}};
    struct post_policy_form form = {{fields, 1}, SPAN("b"), SPAN("text/plain")};
    struct post_policy p;
    struct fault f = {0};
    enum err rc = post_policy_check((struct span){at, len}, &form, 1795262400, &p, &f);

    assert(rc == ERR_OK || f.code == S3_AccessDenied ||
           f.code == S3_InvalidPolicyDocument);
}

static void
cors(const char *at, size_t len)
{
    struct arena *a = arena_new(4096, MIB(4));
    struct fault f = {0};
    struct cors c, back;
    struct buf one, two;
    bool any;

    buf_init(&one, MIB(8));
    buf_init(&two, MIB(8));
    if (cors_parse((struct span){at, len}, a, &c, &f) == ERR_OK) {
        enum err rc;

        cors_write(&c, &one);
        rc = cors_parse(buf_span(&one), a, &back, &f);
        assert(rc == ERR_OK || f.code == S3_MaxMessageLengthExceeded);
        if (rc == ERR_OK) {
            cors_write(&back, &two);
            assert(span_eq(buf_span(&one), buf_span(&two)));
        }
        (void)cors_find(&c, SPAN("https://a"), SPAN("GET"), SPAN("x, y"), &any);
    } else {
        assert(f.code != S3_OK);
    }
    buf_fini(&one);
    buf_fini(&two);
    arena_free(&a);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *at = (const char *)data + 1;
    struct span boundary;

    if (size < 1)
        return 0;
    size--;
    if (data[0] == 'p') {
        policy(at, size);
    } else if (data[0] == 'c') {
        cors(at, size);
    } else if (data[0] == 't') {
        (void)form_boundary((struct span){at, size}, &boundary);
    } else {
        char *copy = xmemdup0(at, size);

        assert(read_form(copy, size, size) == read_form(copy, size, 1));
        free(copy);
    }
    return 0;
}
