#include "node/state_copy.h"

#include <string.h>

#include "base/hash.h"
#include "wire/record.h"

enum { KIND_STATE_COPY = 50, VERSION = 1 };
enum { F_CLUSTER = 1, F_NODE = 2, F_STARTS = 3, F_NUMBER = 4, F_BYTES = 5, F_SUM = 6 };

void
state_copy_encode(const struct state_copy *c, struct buf *out)
{
    struct record_writer w;

    record_begin(&w, out, KIND_STATE_COPY, VERSION);
    record_put_span(&w, F_CLUSTER,
                    (struct span){(const char *)c->cluster_id, sizeof c->cluster_id});
    record_put_u64(&w, F_NODE, c->node);
    record_put_u64(&w, F_STARTS, c->starts);
    record_put_u64(&w, F_NUMBER, c->number);
    record_put_u64(&w, F_BYTES, c->pairs.len);
    record_put_u64(&w, F_SUM, hash_xxh3(c->pairs.at, c->pairs.len, 0));
    record_end(&w);
    buf_put(out, c->pairs.at, c->pairs.len);
}

static bool
parse_number(const struct record *r, uint8_t id, uint64_t *out)
{
    struct span field;

    return record_find(r, id, &field) && record_u64(field, out) == ERR_OK;
}

enum err
state_copy_parse(struct span bytes, struct state_copy *out, struct errbuf *eb)
{
    uint64_t node = 0, len = 0, sum = 0;
    struct span cluster = {"", 0};
    struct record r;
    enum err rc = record_open(bytes, &r, eb);

    *out = (struct state_copy){0};
    if (rc != ERR_OK)
        return rc;
    if (r.kind != KIND_STATE_COPY || r.version != VERSION)
        return err_set(eb, ERR_CORRUPT, "a record of kind %u, version %u; wanted %u, %u",
                       r.kind, r.version, KIND_STATE_COPY, VERSION);
    if (!record_find(&r, F_CLUSTER, &cluster) || cluster.len != sizeof out->cluster_id ||
        !parse_number(&r, F_NODE, &node) || node == 0 || node > UINT16_MAX ||
        !parse_number(&r, F_STARTS, &out->starts) ||
        !parse_number(&r, F_NUMBER, &out->number) || !parse_number(&r, F_BYTES, &len) ||
        !parse_number(&r, F_SUM, &sum))
        return err_set(eb, ERR_CORRUPT, "a copy of the node's state lacks a field");
    memcpy(out->cluster_id, cluster.at, cluster.len);
    out->node = (uint16_t)node;
    out->pairs = span_from(bytes, r.len);
    if (out->pairs.len != len || hash_xxh3(out->pairs.at, out->pairs.len, 0) != sum)
        return err_set(
            eb, ERR_CORRUPT,
            "a copy of the node's state: %zu bytes of another sum than the %llu "
            "that were written",
            out->pairs.len, (unsigned long long)len);
    return ERR_OK;
}
