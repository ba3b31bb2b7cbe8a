/* Is an object damaged where it is stored? A server breaks the answer off at the damage, which looks like a broken connection. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/transfer.h"

#define PROBES      4
#define PROBE_BYTES MIB(8)
#define WORDS       "object is damaged"

static enum err
damage_told(struct span bucket, struct span key, uint64_t at, struct s3_failure *f,
            struct errbuf *eb)
{
    f->retry = false; /* it will not get better by asking again */
    return err_set(eb, ERR_CORRUPT,
                   "s3://%.*s/%.*s is damaged at the server: what it stores from about "
                   "byte %" PRIu64 " on does not match its checksums, and no intact copy "
                   "is there",
                   SPAN_ARG(bucket), SPAN_ARG(key), at);
}

/* Reads on from *at; ERR_OK: to the end of what may be read. *at moves on. */
static enum err
damage_probe(struct s3_client *s3, const struct s3_get *get, uint64_t *at, uint64_t most,
             struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    char *room = xmalloc(KIB(64));
    struct s3_object_info info;
    struct s3_call *call = NULL;
    struct s3_failure f = {0};
    size_t n = 1;
    enum err rc = s3_get_begin(s3, get, a, &info, &call, &f, eb);

    while (rc == ERR_OK && n > 0 && *at < most) {
        rc = s3_read(call, room, KIB(64), &n, eb);
        *at += rc == ERR_OK ? n : 0;
    }
    s3_end(&call);
    free(room);
    arena_free(&a);
    return rc;
}

enum err
transfer_damage(struct s3_client *s3, const struct s3_get *get, uint64_t at, enum err rc,
                struct s3_failure *f, struct errbuf *eb)
{
    struct s3_get rest = *get;
    struct errbuf why = {{0}};
    uint64_t most = at + PROBE_BYTES;
    enum err probe = rc;

    if (rc == ERR_BACKEND && strstr(eb->text, WORDS) != NULL)
        return damage_told(get->bucket, get->key, at, f, eb);
    if (rc != ERR_INCOMPLETE)
        return rc;
    for (int i = 0; i < PROBES && probe == ERR_INCOMPLETE; i++) {
        rest.range = true;
        rest.first = at;
        rest.last = UINT64_MAX;
        probe = damage_probe(s3, &rest, &at, most, &why);
        if (probe == ERR_BACKEND && strstr(why.text, WORDS) != NULL)
            return damage_told(get->bucket, get->key, at, f, eb);
    }
    return rc;
}
