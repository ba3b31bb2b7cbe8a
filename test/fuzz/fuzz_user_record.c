/* Any bytes as a user record, as they are and with head and sum corrected, so that the fields are reached: what decodes
 * encodes to a record that decodes to the same. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "auth/user.h"
#include "base/hash.h"
#include "base/mem.h"
#include "meta/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
try(const char *data, size_t size)
{
    struct user *u = NULL, *again = NULL;
    struct errbuf eb = {{0}};
    struct buf one, two;

    if (user_decode((struct span){data, size}, &u, &eb) != ERR_OK) {
        assert(u == NULL);
        assert(eb.text[0] != '\0');
        return;
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
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *right;
    uint32_t sum;

    try((const char *)data, size);
    if (size < 12 || size > META_VALUE_MAX)
        return 0;
    right = xmemdup0(data, size);
    memcpy(right, "FR\42\1", 4); /* kind 34 */
    for (int i = 0; i < 4; i++)
        right[4 + i] = (char)(size >> (24 - 8 * i));
    sum = hash_crc32c(0, right, size - 4);
    for (int i = 0; i < 4; i++)
        right[size - 4 + (size_t)i] = (char)(sum >> (24 - 8 * i));
    try(right, size);
    free(right);
    return 0;
}
