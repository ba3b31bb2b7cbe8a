/* Any bytes as an answer of etcd's gateway; the first one says as which. What is accepted keeps what its reader promises. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"
#include "meta/etcd_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_found(struct span json, struct arena *a, struct errbuf *eb)
{
    struct etcd_found f;

    if (etcd_found_parse(json, SPAN("p/"), a, &f, eb) != ERR_OK)
        return;
    assert(f.count <= META_PAGE_MAX);
    assert(!f.more || f.count > 0);
    for (uint32_t i = 0; i < f.count; i++) {
        assert(f.pairs[i].key.len > 0 && f.pairs[i].key.len <= META_KEY_MAX);
        assert(f.pairs[i].revision > 0);
        assert(i == 0 || span_cmp(f.pairs[i - 1].key, f.pairs[i].key) < 0);
    }
}

static void
check_outcome(struct span json, struct arena *a, struct errbuf *eb)
{
    struct etcd_outcome o;

    if (etcd_outcome_parse(json, a, &o, eb) != ERR_OK)
        return;
    assert(o.revision > 0);
    assert(o.read_count <= META_CHANGE_MAX + META_READ_MAX);
}

static void
check_events(struct span json, struct arena *a, struct errbuf *eb)
{
    struct etcd_events v;

    if (etcd_events_parse(json, SPAN("p/"), a, &v, eb) != ERR_OK)
        return;
    for (uint32_t i = 0; i < v.count; i++)
        assert(v.keys[i].len > 0 && v.keys[i].len <= META_KEY_MAX);
}

static void
check_token(struct span json, struct errbuf *eb)
{
    char *token = NULL;

    if (etcd_token_parse(json, &token, eb) == ERR_OK)
        assert(token != NULL && token[0] != '\0');
    else
        assert(token == NULL);
    free(token);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena *a;
    struct errbuf eb = {{0}};
    struct span json = {(const char *)data + 1, size - 1};

    if (size == 0)
        return 0;
    a = arena_new(4096, MIB(1));
    switch (data[0]) {
    case 'r':
        check_found(json, a, &eb);
        break;
    case 't':
        check_outcome(json, a, &eb);
        break;
    case 'w':
        check_events(json, a, &eb);
        break;
    case 'a':
        check_token(json, &eb);
        break;
    default:
        assert(etcd_error_parse(json, &eb) <= 16);
        break;
    }
    arena_free(&a);
    return 0;
}
