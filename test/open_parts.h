/* What a bucket is said to hold in uploads in progress, against what their listings say. No client writes meanwhile. */
#pragma once
#include "check.h"

#include "base/mem.h"
#include "store/store.h"

static enum err
open_parts_add(struct store *d, const struct store_key *k, const struct upload_id *u,
               uint64_t *count, uint64_t *bytes, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), MIB(4));
    struct store_part *parts;
    uint32_t n;
    bool more;
    enum err rc = store_part_list(d, k, u, 0, STORE_PARTS_MAX, a, &parts, &n, &more, eb);

    if (rc == ERR_OK)
        *count += n;
    for (uint32_t i = 0; rc == ERR_OK && i < n; i++)
        *bytes += parts[i].size;
    arena_free(&a);
    return rc;
}

/* An error: the listing failed, and nothing was compared. */
static enum err
check_open_parts(struct store *d, uint64_t bucket, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(4), MIB(4));
    struct store_upload *found;
    uint64_t want = 0, want_bytes = 0, got, bytes;
    uint32_t count;
    bool more = false;
    enum err rc =
        store_upload_list(d, bucket, SPAN(""), NULL, 1000, a, &found, &count, &more, eb);

    CHECK(!more);
    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        struct store_key k = {.bucket = bucket, .key = found[i].key};

        rc = open_parts_add(d, &k, &found[i].id, &want, &want_bytes, eb);
    }
    arena_free(&a);
    if (rc != ERR_OK)
        return rc;
    store_bucket_usage(d, bucket, USAGE_OPEN, &got, &bytes);
    CHECK_U64(got, want);
    CHECK_U64(bytes, want_bytes);
    return ERR_OK;
}
