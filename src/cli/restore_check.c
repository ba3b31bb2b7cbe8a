#include "cli/restore_check.h"

#include <openssl/crypto.h>
#include <string.h>

#include "base/mem.h"
#include "cli/archive.h"
#include "map/codec.h"
#include "meta/dump.h"

#define STATE_MAX (17u << 20)

static enum err
restore_check_bucket(struct span record, unsigned disks, struct errbuf *eb)
{
    struct map_bucket *b = NULL;
    const struct map_bucket *drop;
    enum err rc = map_bucket_decode(record, &b, NULL);

    if (rc != ERR_OK)
        return ERR_OK; /* the restore says what is wrong with it */
    if (!b->cached && b->copies > disks)
        rc =
            err_set(eb, ERR_BAD_REQUEST,
                    "bucket \"%s\" of the backup has %u copies of each object, and %u "
                    "folder%s given: name %u folders, each on a disk of its own. Nothing "
                    "was written",
                    b->name, b->copies, disks, disks == 1 ? " is" : "s are", b->copies);
    drop = b;
    map_bucket_drop(&drop);
    return rc;
}

enum err
restore_check_state(struct span state, unsigned disks, struct errbuf *eb)
{
    struct span key, value;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && meta_dump_next(&state, &key, &value, NULL) == ERR_OK)
        if (span_starts(key, SPAN("bucket/")))
            rc = restore_check_bucket(value, disks, eb);
    return rc;
}

/* ---- of a file ---- */

struct checking {
    struct buf state; /* wiped: it holds keys */
    bool in_state;
    unsigned disks;
    enum err rc;
    struct errbuf *eb;
};

/* Any error ends the reading: c->rc says what was found. */
static enum err
restore_check_begin(void *arg, const struct tar_head *h, struct errbuf *eb)
{
    struct checking *c = arg;

    if (c->in_state) {
        c->rc = restore_check_state(buf_span(&c->state), c->disks, c->eb);
        return err_set(eb, ERR_CANCELLED, "the state was read");
    }
    c->in_state = span_is(h->path, ".forebay/state") && h->size <= STATE_MAX;
    return h->xattr.len > 0 ? err_set(eb, ERR_CANCELLED, "there is no state") : ERR_OK;
}

static enum err
restore_check_data(void *arg, struct span data, struct errbuf *eb)
{
    struct checking *c = arg;

    (void)eb;
    if (c->in_state)
        buf_put_span(&c->state, data);
    return ERR_OK;
}

static enum err
restore_check_end(void *arg, struct errbuf *eb)
{
    struct checking *c = arg;

    (void)eb;
    if (c->in_state)
        c->rc = restore_check_state(buf_span(&c->state), c->disks, c->eb);
    return ERR_OK;
}

enum err
restore_check_file(const char *path, unsigned disks, struct errbuf *eb)
{
    struct checking c = {.disks = disks, .eb = eb};
    struct archive_members members = {.arg = &c,
                                      .begin = restore_check_begin,
                                      .data = restore_check_data,
                                      .end = restore_check_end};

    if (strcmp(path, "-") == 0)
        return ERR_OK;
    buf_init(&c.state, STATE_MAX);
    if (archive_read_tar(path, &members, NULL) != ERR_OK && c.rc == ERR_OK)
        c.rc = ERR_OK; /* the restore reads it again, and says what is wrong */
    if (c.state.len > 0)
        OPENSSL_cleanse(c.state.at, c.state.len);
    buf_fini(&c.state);
    return c.rc;
}
