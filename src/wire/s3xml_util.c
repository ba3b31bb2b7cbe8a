#include "wire/s3xml_util.h"

#include "base/mem.h"
#include "base/uri.h"

void *
s3xml_grow(struct arena *a, void **items, size_t *room, size_t count, size_t item_size)
{
    size_t more = *room > 0 ? *room * 2 : 16;
    char *bigger;

    if (count >= *room) {
        bigger = arena_try(a, more * item_size);
        if (bigger == NULL)
            return NULL;
        if (count > 0)
            memcpy(bigger, *items, count * item_size);
        *items = bigger;
        *room = more;
    }
    return (char *)*items + count * item_size;
}

bool
s3xml_keep(struct arena *a, struct span text, struct span *out)
{
    char *at = arena_try(a, text.len + 1);

    *out = (struct span){"", 0};
    if (at == NULL)
        return false;
    if (text.len > 0)
        memcpy(at, text.at, text.len);
    *out = (struct span){at, text.len};
    return true;
}

bool
s3xml_decode_key(struct span *key)
{
    char *at = (char *)(uintptr_t)key->at;
    int len;

    for (size_t i = 0; i < key->len; i++) {
        if (at[i] == '+')
            at[i] = ' ';
    }
    len = uri_decode(*key, at);
    if (len < 0)
        return false;
    key->len = (size_t)len;
    return true;
}
