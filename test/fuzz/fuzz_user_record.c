/* Any bytes as a user record: what decodes encodes to a record that decodes to the same. */
#include <assert.h>
#include <stdint.h>

#include "auth/user.h"
#include "meta/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct user *u = NULL, *again = NULL;
    struct errbuf eb = {{0}};
    struct buf one, two;

    if (user_decode((struct span){(const char *)data, size}, &u, &eb) != ERR_OK) {
        assert(u == NULL);
        assert(eb.text[0] != '\0');
        return 0;
    }
    buf_init(&one, META_VALUE_MAX);
    buf_init(&two, META_VALUE_MAX);
    user_encode(u, &one);
    if (!one.full) {
        enum err rc = user_decode(buf_span(&one), &again, &eb);

        assert(rc == ERR_OK);
        user_encode(again, &two);
        assert(span_eq(buf_span(&one), buf_span(&two)));
        user_free(&again);
    }
    user_free(&u);
    buf_fini(&one);
    buf_fini(&two);
    return 0;
}
