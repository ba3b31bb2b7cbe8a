#include "node/identity.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "store/store.h"
#include "wire/record.h"

#define FILE_NAME      "identity"
#define FILE_BYTES_MAX 4096

enum { KIND_IDENTITY = 33, VERSION = 1 };
enum { F_CLUSTER = 1, F_NODE = 2, F_STARTS = 3 };

static enum err
identity_decode(struct span bytes, struct identity *out, struct errbuf *eb)
{
    struct record r;
    struct span cluster = {"", 0}, field;
    uint64_t node = 0;
    enum err rc = record_open(bytes, &r, eb);

    if (rc != ERR_OK) {
        err_prefix(eb, "the node's identity is damaged");
        return rc;
    }
    if (r.kind != KIND_IDENTITY || r.version != VERSION)
        return err_set(eb, ERR_CORRUPT,
                       "the node's identity has kind %u, version %u; this program "
                       "reads %u, %u",
                       r.kind, r.version, KIND_IDENTITY, VERSION);
    if (record_find(&r, F_CLUSTER, &cluster) && cluster.len == sizeof out->cluster_id)
        memcpy(out->cluster_id, cluster.at, cluster.len);
    else
        rc = ERR_CORRUPT;
    if (!record_find(&r, F_NODE, &field) || record_u64(field, &node) != ERR_OK ||
        node == 0 || node > UINT16_MAX)
        rc = ERR_CORRUPT;
    if (!record_find(&r, F_STARTS, &field) || record_u64(field, &out->starts) != ERR_OK)
        rc = ERR_CORRUPT;
    out->node = (uint16_t)node;
    return rc == ERR_OK ? ERR_OK : err_set(eb, rc, "the node's identity lacks a field");
}

enum err
identity_put(struct rt_dir *dir, const struct identity *id, struct errbuf *eb)
{
    struct record_writer w;
    struct buf text;
    enum err rc;

    buf_init(&text, FILE_BYTES_MAX);
    record_begin(&w, &text, KIND_IDENTITY, VERSION);
    record_put_span(&w, F_CLUSTER,
                    (struct span){(const char *)id->cluster_id, sizeof id->cluster_id});
    record_put_u64(&w, F_NODE, id->node);
    record_put_u64(&w, F_STARTS, id->starts);
    record_end(&w);
    rc = rt_file_store(dir, FILE_NAME, text.at, text.len, 0600, eb);
    buf_fini(&text);
    return rc;
}

/* No identity: only right when the disk is new as well. */
static enum err
mint(const char *disk, struct identity *out, struct errbuf *eb)
{
    struct store_identity found;
    enum err rc = store_identify(disk, &found, eb);

    if (rc == ERR_OK)
        return err_set(
            eb, ERR_CORRUPT,
            "%s is a disk of Forebay whose node state (.forebay/node/identity) is gone; "
            "put it back from a backup, or, if the node has other disks, start with "
            "those "
            "and --without this one",
            disk);
    if (rc != ERR_NOT_FOUND)
        return rc;
    *out = (struct identity){.node = 1, .first = true};
    rt_random(out->cluster_id, sizeof out->cluster_id);
    return ERR_OK;
}

enum err
identity_load(struct rt_dir *dir, const char *disk, struct identity *out,
              struct errbuf *eb)
{
    char *text = NULL;
    size_t len = 0;
    enum err rc;

    *out = (struct identity){0};
    rc = rt_file_load(dir, FILE_NAME, FILE_BYTES_MAX, &text, &len, eb);
    if (rc == ERR_OK)
        rc = identity_decode((struct span){text, len}, out, eb);
    else if (rc == ERR_NOT_FOUND)
        rc = mint(disk, out, eb);
    free(text);
    return rc;
}

enum err
identity_start(struct rt_dir *dir, const char *disk, struct identity *out,
               struct errbuf *eb)
{
    enum err rc = identity_load(dir, disk, out, eb);

    if (rc != ERR_OK)
        return rc;
    out->starts++;
    return identity_put(dir, out, eb);
}
