/* The check names the keys of which acknowledged changes are lost (index/suspect.h). Only their hashes are known: a key has a name
 * where an older entry of it is left. */
#include <assert.h>
#include <inttypes.h>

#include "base/arena.h"
#include "store/index/index.h"
#include "store/index/list.h"
#include "store/index/run.h"
#include "store/index/suspect.h"
#include "store/offline/check.h"

#define PAGE 256u

static void
name_suspects(struct check *k, const struct store_entry *e, uint32_t count,
              uint64_t bucket, uint32_t *named)
{
    char text[CHECK_KEY_TEXT];

    for (uint32_t i = 0; i < count; i++) {
        if (!suspects_has(k->disk->suspects, run_key_hash(bucket, e[i].key)))
            continue;
        ++*named;
        check_fault(k, "%s: an acknowledged change is lost, what is left is older",
                    check_key(bucket, e[i].key, text));
    }
}

static enum err
look_in_bucket(struct check *k, uint64_t bucket, uint32_t *named, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), MIB(4));
    struct store *d = k->disk;
    char after[STORE_KEY_MAX];
    struct span from = {after, 0};
    bool more = true;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && more) {
        struct store_entry *entries;
        uint32_t count;

        arena_reset(a);
        rc = list_objects(d->memtable, d->index, bucket, from, from.len == 0, PAGE, a,
                          &entries, &count, &more, eb);
        if (rc != ERR_OK || count == 0)
            break;
        name_suspects(k, entries, count, bucket, named);
        assert(entries[count - 1].key.len <= sizeof after);
        memcpy(after, entries[count - 1].key.at, entries[count - 1].key.len);
        from.len = entries[count - 1].key.len;
    }
    arena_free(&a);
    return rc;
}

enum err
check_suspects(struct check *k, struct errbuf *eb)
{
    struct suspects *s = k->disk->suspects;
    uint32_t named = 0, left = atomic_load(&s->left);
    uint64_t bucket = 0;
    enum err rc = ERR_OK;

    assert(!suspects_any(s)); /* nothing is verified here */
    k->repair.suspects = left > 0 || s->all;
    if (s->all)
        check_fault(k, "acknowledged changes are lost, of keys that are not known: what "
                       "may be older "
                       "than that is an error until --repair accepts the loss");
    if (left == 0)
        return ERR_OK;
    for (rc = index_bucket(k->disk->index, 0, &bucket, eb); rc == ERR_OK;
         rc = index_bucket(k->disk->index, bucket, &bucket, eb)) {
        rc = look_in_bucket(k, bucket, &named, eb);
        if (rc != ERR_OK || bucket++ == UINT64_MAX)
            break;
    }
    if (rc == ERR_NOT_FOUND)
        rc = ERR_OK;
    if (rc == ERR_OK && named < left)
        check_fault(
            k,
            "acknowledged changes of %" PRIu32
            " more keys (or uploads) are lost, and nothing is left that names them",
            left - named);
    return rc;
}
