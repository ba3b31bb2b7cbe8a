#include "cli/traffic.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/admin.h"
#include "wire/json_get.h"

static void
traffic_add(struct traffic_kind *k, struct span name, const json_t *r)
{
    struct traffic_share *s = NULL;

    name.len = MIN(name.len, sizeof k->at[0].name - 1);
    for (unsigned i = 0; i < k->count && s == NULL; i++)
        if (span_is(name, k->at[i].name))
            s = &k->at[i];
    if (s == NULL && k->count == TRAFFIC_SHARES)
        return;
    if (s == NULL) {
        s = &k->at[k->count++];
        memset(s, 0, sizeof *s);
        memcpy(s->name, name.at, name.len);
    }
    s->requests++;
    s->in += (double)json_get_u64(r, "in");
    s->out += (double)json_get_u64(r, "out");
}

/* Path-style names; paths of our own pages are no bucket. */
static void
traffic_take(struct traffic *t, const json_t *r)
{
    struct span path = span_of(json_get_text(r, "path", "")),
                peer = span_of(json_get_text(r, "peer", ""));
    const char *end = peer.len > 0 ? memrchr(peer.at, ':', peer.len) : NULL;
    struct span bucket = path.len > 0 ? span_from(path, 1) : path;
    const char *slash = bucket.len > 0 ? memchr(bucket.at, '/', bucket.len) : NULL;

    if (slash != NULL)
        bucket.len = (size_t)(slash - bucket.at);
    if (span_is(bucket, "_"))
        return;
    t->seen++;
    if (end != NULL)
        peer.len = (size_t)(end - peer.at);
    traffic_add(&t->buckets, bucket.len > 0 ? bucket : SPAN("(list of buckets)"), r);
    traffic_add(&t->clients, peer, r);
}

enum err
traffic_look(struct session *s, struct traffic *t)
{
    struct arena *a = arena_new(KIB(64), MIB(32));
    struct s3_request q = {.method = "GET", .path = SPAN("/_/trace")};
    struct span answer = {"", 0};
    bool first = t->after == 0;
    json_t *doc = NULL, *r;
    size_t i;
    enum err rc;

    q.query = span_of(arena_printf(a, "after=%" PRIu64, t->after));
    rc = admin_call(s, &q, a, &answer);
    if (rc == ERR_OK)
        doc = json_loadb(answer.at, answer.len, 0, NULL);
    t->silent = !json_is_array(json_object_get(doc, "requests"));
    if (!t->silent) {
        t->after = json_get_u64(doc, "after");
        t->lost += first ? 0 : (double)json_get_u64(doc, "lost");
        if (!first)
            json_array_foreach(json_object_get(doc, "requests"), i, r) traffic_take(t, r);
    }
    json_decref(doc);
    arena_free(&a);
    return rc == ERR_CANCELLED ? rc : ERR_OK;
}

static int
busier(const void *a, const void *b)
{
    const struct traffic_share *x = a, *y = b;

    if (x->requests != y->requests)
        return x->requests < y->requests ? 1 : -1;
    return strcmp(x->name, y->name);
}

double
traffic_sort(struct traffic *t)
{
    qsort(t->buckets.at, t->buckets.count, sizeof t->buckets.at[0], busier);
    qsort(t->clients.at, t->clients.count, sizeof t->clients.at[0], busier);
    return t->seen > 0 ? (t->seen + t->lost) / t->seen : 1;
}

void
traffic_clear(struct traffic *t)
{
    t->buckets.count = t->clients.count = 0;
    t->seen = t->lost = 0;
}
