#include "node/cluster_file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "wire/record.h"

#define FILE_BYTES_MAX 4096u

enum { KIND_CLUSTER = 54, CLUSTER_VERSION = 1 };
enum { F_CLUSTER = 1, F_NODE = 2 };

static bool
text_take(const struct record *r, uint8_t field, char out[MAP_NODE_NAME_MAX + 1])
{
    struct span v;

    if (!record_find(r, field, &v) || v.len == 0 || v.len > MAP_NODE_NAME_MAX ||
        memchr(v.at, 0, v.len) != NULL)
        return false;
    memcpy(out, v.at, v.len);
    out[v.len] = '\0';
    return true;
}

static enum err
cluster_file_decode(struct span bytes, struct cluster_file *out, struct errbuf *eb)
{
    struct record r;
    enum err rc = record_open(bytes, &r, eb);

    if (rc != ERR_OK)
        return rc;
    if (r.kind != KIND_CLUSTER || r.version != CLUSTER_VERSION)
        return err_set(eb, ERR_CORRUPT,
                       "a record of kind %u, version %u; this program reads %u, %u",
                       r.kind, r.version, KIND_CLUSTER, CLUSTER_VERSION);
    return text_take(&r, F_CLUSTER, out->cluster) && text_take(&r, F_NODE, out->node)
               ? ERR_OK
               : err_set(eb, ERR_CORRUPT, "the names of cluster and node are not in it");
}

enum err
cluster_file_load(struct rt_dir *dir, struct cluster_file *out, struct errbuf *eb)
{
    char *text = NULL;
    size_t len = 0;
    enum err rc = rt_file_load(dir, CLUSTER_FILE, FILE_BYTES_MAX, &text, &len, eb);

    *out = (struct cluster_file){0};
    if (rc == ERR_NOT_FOUND) {
        err_forget(eb);
        return ERR_OK;
    }
    if (rc == ERR_OK)
        rc = cluster_file_decode((struct span){text, len}, out, eb);
    if (rc != ERR_OK)
        err_prefix(eb, "the file .forebay/node/" CLUSTER_FILE);
    assert(rc != ERR_OK || out->cluster[0] != '\0');
    free(text);
    return rc;
}

enum err
cluster_file_store(struct rt_dir *dir, const struct cluster_file *f, struct errbuf *eb)
{
    struct record_writer w;
    struct buf bytes;
    enum err rc;

    assert(f->cluster[0] != '\0');
    assert(f->node[0] != '\0');
    buf_init(&bytes, FILE_BYTES_MAX);
    record_begin(&w, &bytes, KIND_CLUSTER, CLUSTER_VERSION);
    record_put_span(&w, F_CLUSTER, span_of(f->cluster));
    record_put_span(&w, F_NODE, span_of(f->node));
    record_end(&w);
    assert(!bytes.full);
    rc = rt_file_store(dir, CLUSTER_FILE, bytes.at, bytes.len, 0600, eb);
    buf_fini(&bytes);
    return rc;
}

enum err
cluster_file_must_be_alone(struct rt_dir *dir, const char *path, struct errbuf *eb)
{
    struct cluster_file f;
    enum err rc = cluster_file_load(dir, &f, eb);

    if (rc != ERR_OK || f.cluster[0] == '\0')
        return rc;
    return err_set(eb, ERR_DENIED,
                   "%s belongs to node \"%s\" of cluster \"%s\": without the cluster it "
                   "cannot know what others have written. Serve it with --etcd URL "
                   "--cluster %s --cluster-key FILE (docs/cluster.md)",
                   path, f.node, f.cluster, f.cluster);
}
