/* Copies of the node's state: on every disk that does not hold it, one file, rewritten after each change. When the disk
 * with the state is lost, a start takes the newest of them.
 *
 * A change is acknowledged when its copies are written, or after COPY_WAIT_MS: the change is durable in the node's own state
 * already, so a hanging disk must not block it.
 */
#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "disks/membership.h"
#include "meta/dump.h"
#include "meta/meta.h"
#include "node/cluster_file.h"
#include "node/internal.h"
#include "node/state_copy.h"

#define COPY_WAIT_MS 2000u

/* ---- writing ---- */

static enum err
state_copies_gather(struct node *n, struct buf *out, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), STATE_COPY_BYTES_MAX);
    struct meta_pair *pairs;
    uint64_t revision;
    uint32_t count = 0;
    /* In a cluster the pairs are in etcd, and the copy is of the folder. */
    enum err rc = n->members != NULL
                      ? ERR_OK
                      : meta_list(n->meta, SPAN(""), a, &pairs, &count, &revision, eb);

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++)
        meta_dump_put(out, pairs[i].key, pairs[i].value);
    arena_free(&a);
    if (rc != ERR_OK)
        return rc;
    rc = meta_dump_file(out, n->folders.state, "", MEMBERSHIP_FILE, eb);
    if (rc == ERR_OK)
        rc = meta_dump_file(out, n->folders.state, "", CLUSTER_FILE, eb);
    if (rc == ERR_OK)
        rc = meta_dump_file(out, n->folders.dot, "", NODE_CREDENTIALS, eb);
    if (rc == ERR_OK)
        rc = meta_dump_files(out, n->folders.secrets, "secrets/",
                             eb); /* sealed as they are */
    if (rc == ERR_OK && n->o->backend.key_file == NULL)
        rc = meta_dump_file(out, n->folders.state, "", SECRETS_KEY_FILE, eb);
    return rc == ERR_OK && out->full
               ? err_set(eb, ERR_TOO_LARGE, "the node's state has over %u MiB",
                         STATE_COPY_BYTES_MAX >> 20)
               : rc;
}

struct storing {
    struct node *n;
    struct span bytes;
    unsigned others; /* disks that do not hold the state */
    bool only_count;
};

static void
store_on(void *arg, unsigned slot, struct store *d)
{
    struct storing *s = arg;
    struct rt_dir *root = NULL, *dot = NULL;
    struct errbuf eb = {{0}};
    enum err rc;

    (void)slot;
    if (strcmp(store_path(d), s->n->state_path) == 0 || !store_accepts_writes(d))
        return;
    s->others++;
    if (s->only_count)
        return;
    rc = rt_dir_open(store_path(d), &root, &eb);
    if (rc == ERR_OK)
        rc = rt_dir_open_at(root, ".forebay", &dot, &eb);
    if (rc == ERR_OK)
        rc = rt_file_store(dot, STATE_COPY_FILE, s->bytes.at, s->bytes.len, 0600, &eb);
    if (rc != ERR_OK && rc != ERR_CANCELLED)
        LOG(LOG_WARN, "node.copy", eb.text, L_TEXT("path", store_path(d)));
    rt_dir_close(&dot);
    rt_dir_close(&root);
}

void
node_write_state_copies(struct node *n)
{
    struct storing s = {.n = n, .only_count = true};
    struct state_copy c = {.node = n->id.node, .starts = n->id.starts};
    struct errbuf eb = {{0}};
    struct buf pairs, whole;
    enum err rc;

    disks_each(n->disks, store_on, &s);
    if (s.others == 0)
        return;
    buf_init(&pairs, STATE_COPY_BYTES_MAX - KIB(64));
    buf_init(&whole, STATE_COPY_BYTES_MAX);
    memcpy(c.cluster_id, n->id.cluster_id, sizeof c.cluster_id);
    rc = state_copies_gather(n, &pairs, &eb);
    if (rc == ERR_OK) {
        c.number = n->copies.number++;
        c.pairs = buf_span(&pairs);
        state_copy_encode(&c, &whole);
        s.bytes = buf_span(&whole);
        s.only_count = false;
        disks_each(n->disks, store_on, &s);
    } else if (rc != ERR_CANCELLED) {
        LOG(LOG_WARN, "node.copy", eb.text, L_TEXT("path", n->state_path));
    }
    if (pairs.len > 0)
        OPENSSL_cleanse(pairs.at, pairs.len);
    if (whole.len > 0)
        OPENSSL_cleanse(whole.at, whole.len);
    buf_fini(&pairs);
    buf_fini(&whole);
}

/* ---- when ---- */

void
node_state_copies_run(void *arg)
{
    struct node *n = arg;
    enum err rc = ERR_OK;

    n->copies.running = true;
    n->copies.want++; /* what was made since the disks were opened */
    while (rc == ERR_OK) {
        uint64_t upto = n->copies.want;

        if (n->copies.have < upto) {
            node_write_state_copies(n);
            n->copies.have = upto;
            n->copies.hangs = false;
            rt_cond_broadcast(&n->copies.written);
        } else {
            rc = rt_cond_wait(&n->copies.wanted, DEADLINE_NEVER);
        }
        if (rt_cancelled())
            rc = ERR_CANCELLED;
    }
    n->copies.running = false;
    rt_cond_broadcast(&n->copies.written);
}

static void
wait_on_loop_0(void *arg)
{
    struct node *n = arg;
    struct deadline by = deadline_in_ms(COPY_WAIT_MS);
    uint64_t mine;

    if (!n->copies.running)
        return;
    mine = ++n->copies.want;
    rt_cond_broadcast(&n->copies.wanted);
    while (n->copies.running && n->copies.have < mine && !n->copies.hangs) {
        enum err rc = rt_cond_wait(&n->copies.written, by);

        if (rc == ERR_TIMEOUT) {
            n->copies.hangs = true; /* no change waits until that write has ended */
            LOG(LOG_WARN, "node.copy",
                "a disk takes long to write its copy of the node's state",
                L_U64("waited_ms", COPY_WAIT_MS));
        }
        if (rc != ERR_OK)
            return;
    }
}

void
node_state_changed(void *arg)
{
    if (rt_call(0, wait_on_loop_0, arg) != ERR_OK)
        return; /* the caller was cancelled: the copies are written all the same */
}

/* ---- taking one ---- */

static void
state_copies_drop(char **text, size_t len)
{
    if (*text != NULL)
        OPENSSL_cleanse(*text, len);
    free(*text);
    *text = NULL;
}

static enum err
state_copies_load(const char *path, char **text, struct state_copy *out,
                  struct errbuf *eb)
{
    struct rt_dir *root = NULL, *dot = NULL;
    size_t len = 0;
    enum err rc = rt_dir_open(path, &root, eb);

    *text = NULL;
    if (rc == ERR_OK)
        rc = rt_dir_open_at(root, ".forebay", &dot, eb);
    if (rc == ERR_OK)
        rc = rt_file_load(dot, STATE_COPY_FILE, STATE_COPY_BYTES_MAX, text, &len, eb);
    if (rc == ERR_OK)
        rc = state_copy_parse((struct span){*text, len}, out, eb);
    rt_dir_close(&dot);
    rt_dir_close(&root);
    return rc;
}

/* Finds the newest valid copy and its path; the caller owns the bytes. */
static enum err
find_newest(struct node *n, unsigned *which, char **text, struct state_copy *best)
{
    bool found = false;

    *text = NULL;
    for (unsigned i = 0; i < n->o->dir_count; i++) {
        struct state_copy c;
        struct errbuf eb = {{0}};
        char *bytes = NULL;
        enum err rc = state_copies_load(n->o->dirs[i], &bytes, &c, &eb);

        if (rc == ERR_OK && (!found || state_copy_newer(&c, best))) {
            state_copies_drop(text, best->pairs.len);
            *text = bytes;
            *best = c;
            *which = i;
            found = true;
            continue;
        }
        if (rc == ERR_CORRUPT)
            LOG(LOG_WARN, "node.copy", eb.text, L_TEXT("path", n->o->dirs[i]));
        free(bytes);
    }
    return found ? ERR_OK : ERR_NOT_FOUND;
}

static void
state_copies_unlink_one(const char *name, void *arg)
{
    struct errbuf eb = {{0}};

    if (rt_dir_unlink(arg, name, &eb) != ERR_OK)
        LOG(LOG_WARN, "node.copy", eb.text, L_TEXT("file", name));
}

/* "file:NAME" to the file; else a pair of meta. */
static enum err
state_copies_put_back(struct node_folders *f, struct meta *m, struct span key,
                      struct span value, struct errbuf *eb)
{
    struct meta_change change = {.key = key, .value = value, .if_revision = META_ANY};
    struct span name = span_from(key, MIN(key.len, strlen("file:")));
    struct rt_dir *dir;
    char text[256];

    if (!span_starts(key, SPAN("file:")))
        return meta_apply(m, &change, 1, NULL, eb);
    if (span_is(name, MEMBERSHIP_FILE) || span_is(name, SECRETS_KEY_FILE) ||
        span_is(name, CLUSTER_FILE)) {
        dir = f->state;
    } else if (span_is(name, NODE_CREDENTIALS)) {
        dir = f->dot;
    } else if (span_starts(name, SPAN("secrets/"))) {
        dir = f->secrets;
        name = span_from(name, strlen("secrets/"));
    } else {
        return err_set(eb, ERR_CORRUPT,
                       "a copy of the node's state has a file that is none of ours");
    }
    if (name.len == 0 || name.len >= sizeof text || name.at[0] == '.' ||
        memchr(name.at, '/', name.len) != NULL || memchr(name.at, 0, name.len) != NULL)
        return err_set(eb, ERR_CORRUPT,
                       "a copy of the node's state has a file without a good name");
    memcpy(text, name.at, name.len);
    text[name.len] = '\0';
    return rt_file_store(dir, text, value.at, value.len, 0600, eb);
}

/* Writes the identity last: without it, the next start repeats the restore. */
static enum err
make_state(const char *path, const struct state_copy *c, struct errbuf *eb)
{
    struct identity id = {.node = c->node, .starts = c->starts};
    struct span pairs = c->pairs, key, value;
    struct node_folders f = {0};
    struct meta *m = NULL;
    enum err rc = node_folders_open(path, &f, eb);

    memcpy(id.cluster_id, c->cluster_id, sizeof id.cluster_id);
    if (rc == ERR_OK)
        rc = rt_dir_list(f.meta, state_copies_unlink_one, f.meta, eb);
    if (rc == ERR_OK)
        rc = rt_dir_list(f.secrets, state_copies_unlink_one, f.secrets, eb);
    if (rc == ERR_OK)
        rc = meta_open_embedded(f.meta, &m, eb);
    while (rc == ERR_OK) {
        rc = meta_dump_next(&pairs, &key, &value, eb);
        if (rc == ERR_OK)
            rc = state_copies_put_back(&f, m, key, value, eb);
    }
    if (rc == ERR_NOT_FOUND) /* the end of the pairs */
        rc = identity_put(f.state, &id, eb);
    meta_close(&m);
    node_folders_close(&f);
    return rc;
}

/* The disk that holds the state also holds the list that would say it was rolled back. The copies
 * on other disks say it. */
enum err
node_check_state_copy(struct node *n)
{
    struct state_copy c = {0};
    struct span key, value;
    unsigned which = 0;
    char *text;
    enum err rc = find_newest(n, &which, &text, &c), listed = ERR_OK;
    struct span pairs = c.pairs;

    while (rc == ERR_OK) {
        rc = meta_dump_next(&pairs, &key, &value, &n->eb);
        if (rc == ERR_OK && span_is(key, "file:" MEMBERSHIP_FILE))
            listed = disks_check_state(n->state_path, value, &n->eb);
    }
    state_copies_drop(&text, c.pairs.len);
    return listed == ERR_DENIED ? listed
                                : ERR_OK; /* a copy that is damaged says nothing */
}

enum err
node_restore_state_copy(struct node *n)
{
    struct state_copy c = {0};
    unsigned which = 0;
    char *text;
    enum err rc = find_newest(n, &which, &text, &c);

    if (rc == ERR_OK) {
        rc = make_state(n->o->dirs[which], &c, &n->eb);
        if (rc == ERR_OK) {
            LOG(LOG_WARN, "node.state_from_copy",
                "the disk with the node's state is not here: its newest copy is taken",
                L_TEXT("path", n->o->dirs[which]), L_U64("start", c.starts),
                L_U64("number", c.number));
            n->state_path = n->o->dirs[which];
        }
    }
    state_copies_drop(&text, c.pairs.len);
    return rc;
}
