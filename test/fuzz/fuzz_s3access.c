/* Any bytes as a list of grants, as a document or as it is kept, and as a policy. A list that parses is kept and read back
 * as it was; a policy that parses can be evaluated. The first byte chooses. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "wire/s3acl.h"
#include "wire/s3policy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool
value_of(void *arg, struct span key, struct span *value)
{
    const struct span *text = arg;

    *value = *text;
    return key.len % 2 == 0;
}

static void
fuzz_policy(struct span text)
{
    struct s3policy_request r = {.user = SPAN("ann"),
                                 .access_key = SPAN("KEY"),
                                 .action = "s3:GetObject",
                                 .bucket = SPAN("bkt"),
                                 .key = SPAN("a/b"),
                                 .value = value_of,
                                 .arg = &text};
    struct errbuf eb = {{0}};
    struct s3policy *p;

    if (s3policy_parse(text, SPAN("bkt"), &p, &eb) != ERR_OK) {
        assert(p == NULL && eb.text[0] != '\0');
        return;
    }
    if (s3policy_evaluate(p, &r, true) == S3POLICY_ALLOW)
        assert(s3policy_evaluate(p, &r, false) == S3POLICY_ALLOW);
    s3policy_free(&p);
}

static void
fuzz_list(struct span text, bool is_document)
{
    struct arena *a = arena_new(4096, (size_t)1 << 24);
    struct s3acl *acl = xcalloc(2, sizeof *acl), *back = acl + 1;
    struct fault f = {0};
    struct span kept, again;
    bool good = is_document ? s3acl_parse_document(text, a, acl, &f) == ERR_OK
                            : s3acl_decode(text, acl);

    if (good && memchr(acl->owner.at, '\n', acl->owner.len) == NULL &&
        s3acl_encode(acl, a, &kept, &f) == ERR_OK) {
        assert(s3acl_decode(kept, back));
        assert(s3acl_encode(back, a, &again, &f) == ERR_OK);
        assert(span_eq(kept, again));
        assert(s3acl_permissions(acl, SPAN("ann"), true) <= S3ACL_FULL_CONTROL);
    }
    free(acl);
    arena_free(&a);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = {(const char *)data + 1, size - 1};

    if (size < 1)
        return 0;
    if (data[0] % 3 == 0)
        fuzz_policy(text);
    else
        fuzz_list(text, data[0] % 3 == 1);
    return 0;
}
