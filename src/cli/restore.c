/* restore: a new node from what backup wrote. */
#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/archive.h"
#include "cli/disk_tool.h"
#include "cli/import.h"
#include "cli/passphrase.h"
#include "cli/restore_check.h"
#include "meta/dump.h"
#include "rt/loop.h"
#include "wire/json_get.h"
#include "wire/tar.h"

#define SMALL_MAX  (17u << 20) /* a member that is no object */
#define FORMAT_MAX 2u          /* of a backup: 1 had neither versions nor uploads */

static const struct flag flags[] = {
    {"passphrase-file", 0, "FILE", "opens the keys in the backup: its first line", false},
    {"yes", 'y', NULL, "continue an interrupted restore", false},
    {"json", 0, NULL, "as JSON", false},
    {"quiet", 'q', NULL, "no progress", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay restore node.tar ./data",
    "zstd -dc node.tar.zst | forebay restore --passphrase-file ~/.passphrase - ./data",
    NULL,
};
static const struct verb verb = {
    .name = "restore",
    .summary = "create a node from a backup",
    .arguments = "SOURCE DIR...",
    .least = 2,
    .most = 65,
    .examples = examples,
    .flags = flags,
    .more =
        "DIR is new or empty; several become the disks of the node. Buckets with their "
        "settings, objects, metadata and ETags\n"
        "are what they were, versions and uploads in progress have their ids; the node "
        "is a new one. Without keys in the backup,\n"
        "or without their passphrase, the first start makes new ones, and users and keys "
        "of remotes have to be made again.\n"
        "A restore that was broken off is begun again with --yes, from the same backup: "
        "what is there already is passed over.\n"
        "Until it has come to its end the node is not served.",
};

struct restoring {
    struct disk_tool *tool;
    struct passphrase passphrase;
    struct node_offline node;
    struct import import;
    struct import_options options;
    struct arena *arena;
    struct buf small; /* a member of ours */
    struct buf keys;  /* opened, until this restore is known to be one that may write */
    enum { M_SKIP, M_OBJECT, M_ABOUT, M_STATE, M_KEYS } member;
    bool had_about, had_state, had_keys, keys_unsealed, keys_opened, ended;
    uint64_t buckets, epoch; /* epoch: of the node when the backup began */
};

/* ---- keys ---- */

struct unseal_job {
    struct span passphrase, sealed;
    struct buf *out;
    struct errbuf eb;
    enum err rc;
};

static void
unseal_work(void *arg)
{
    struct unseal_job *j = arg;

    j->rc = unseal(j->passphrase, j->sealed, j->out, &j->eb);
}

static enum err
put_pair(struct restoring *r, struct span key, struct span value, struct errbuf *eb)
{
    struct meta_change change = {.key = key, .value = value, .if_revision = META_ANY};

    return meta_apply(r->node.meta, &change, 1, NULL, eb);
}

/* "file:credentials", "file:secrets/NAME", or a key of meta. */
static enum err
put_secret(struct restoring *r, struct span key, struct span value, struct errbuf *eb)
{
    struct span name = span_from(key, MIN(key.len, strlen("file:")));
    struct rt_dir *dir = r->node.folders.dot;
    char text[256];

    if (!span_starts(key, SPAN("file:")))
        return put_pair(r, key, value, eb);
    if (span_starts(name, SPAN("secrets/"))) {
        dir = r->node.folders.secrets;
        name = span_from(name, strlen("secrets/"));
    } else if (!span_is(name, "credentials")) {
        return err_set(eb, ERR_CORRUPT, "the keys hold a file that is none of ours");
    }
    if (name.len == 0 || name.len >= sizeof text || name.at[0] == '.' ||
        memchr(name.at, '/', name.len) != NULL || memchr(name.at, 0, name.len) != NULL)
        return err_set(eb, ERR_CORRUPT, "the keys hold a file without a good name");
    memcpy(text, name.at, name.len);
    text[name.len] = '\0';
    return rt_file_store(dir, text, value.at, value.len, 0600, eb);
}

/* Credentials and secrets that are here already are written over: only once begin_mark() has allowed it. */
static enum err
restore_put_keys(struct restoring *r, struct errbuf *eb)
{
    struct span dump = buf_span(&r->keys), key, value;
    enum err rc = ERR_OK;

    while (dump.len > 0 && rc == ERR_OK) {
        rc = meta_dump_next(&dump, &key, &value, eb);
        if (rc == ERR_OK)
            rc = put_secret(r, key, value, eb);
    }
    r->keys_opened = rc == ERR_OK;
    return rc;
}

/* They stand before what the backup says of itself: a wrong passphrase is an error at once, what they hold waits. */
static enum err
restore_take_keys(struct restoring *r, struct errbuf *eb)
{
    struct unseal_job job = {.passphrase = {r->passphrase.text, r->passphrase.len},
                             .sealed = buf_span(&r->small),
                             .out = &r->keys};
    enum err rc;

    if (r->had_keys)
        return err_set(eb, ERR_BAD_REQUEST, "the keys stand twice in the backup");
    r->had_keys = true;
    if (r->passphrase.len == 0)
        return ERR_OK; /* said at the end */
    rc = rt_blocking(unseal_work, &job, DEADLINE_NEVER);
    if (rc == ERR_OK && job.rc != ERR_OK) {
        rc = job.rc;
        *eb = job.eb;
    }
    r->keys_unsealed = rc == ERR_OK;
    return rc == ERR_OK && r->had_about ? restore_put_keys(r, eb) : rc;
}

/* ---- which backup ---- */

static enum err
bucket_count(const struct restoring *r, uint32_t *count, struct errbuf *eb)
{
    struct arena *a = arena_new(4096, MIB(16));
    struct meta_pair *pairs;
    uint64_t revision;
    enum err rc =
        meta_list(r->node.meta, SPAN("bucket/"), a, &pairs, count, &revision, eb);

    arena_free(&a);
    return rc;
}

/* A node that holds something is not written over. */
static enum err
restore_check_new(const struct restoring *r, struct errbuf *eb)
{
    uint32_t count = 0;
    enum err rc = bucket_count(r, &count, eb);

    if (rc == ERR_OK && count > 0 && !args_has(r->tool->args, "yes"))
        rc = err_set(eb, ERR_NOT_EMPTY,
                     "\"%s\" is a node with %u buckets: restore into a new folder; --yes "
                     "goes on with a restore that was interrupted",
                     r->tool->args->at[1], count);
    return rc;
}

/* Was a restore of this very backup begun here? ERR_NOT_FOUND: none was. */
static enum err
check_mark(const struct restoring *r, const char *name, struct errbuf *eb)
{
    char *text = NULL;
    size_t len = 0;
    enum err rc =
        rt_file_load(r->node.folders.dot, name, NODE_RESTORING_MAX, &text, &len, eb);

    if (rc == ERR_OK && !span_eq((struct span){text, len}, buf_span(&r->small)))
        rc =
            err_set(eb, ERR_DENIED,
                    "\"%s\" has what a restore of another backup has brought: go on with "
                    "that one, or restore into a new folder",
                    r->tool->args->at[1]);
    free(text);
    return rc;
}

static enum err
begin_mark(const struct restoring *r, struct errbuf *eb)
{
    uint32_t count = 0;
    enum err rc = check_mark(r, NODE_RESTORING, eb);

    if (rc == ERR_NOT_FOUND)
        rc = check_mark(r, NODE_RESTORED, eb);
    if (rc == ERR_NOT_FOUND) {
        rc = bucket_count(r, &count, eb);
        if (rc == ERR_OK && count > 0)
            rc = err_set(
                eb, ERR_NOT_EMPTY,
                "\"%s\" is a node with %u buckets that is no half of a restore, or "
                "was served since: restore into a new folder",
                r->tool->args->at[1], count);
    }
    return rc == ERR_OK ? rt_file_store(r->node.folders.dot, NODE_RESTORING, r->small.at,
                                        r->small.len, 0600, eb)
                        : rc;
}

/* All of it is there. */
static enum err
end_mark(const struct restoring *r, struct errbuf *eb)
{
    char *text = NULL;
    size_t len = 0;
    enum err rc = rt_file_load(r->node.folders.dot, NODE_RESTORING, NODE_RESTORING_MAX,
                               &text, &len, eb);

    if (rc == ERR_OK)
        rc = rt_file_store(r->node.folders.dot, NODE_RESTORED, text, len, 0600, eb);
    if (rc == ERR_OK)
        rc = rt_dir_unlink(r->node.folders.dot, NODE_RESTORING, eb);
    free(text);
    return rc;
}

/* What the backup says of itself. Ids that it brings are of the epochs up to its own: what is written here later is younger. */
static enum err
take_about(struct restoring *r, struct errbuf *eb)
{
    const struct args *a = r->tool->args;
    json_t *about = json_loadb(r->small.at, r->small.len, 0, NULL);
    uint64_t format = about != NULL ? json_get_u64(about, "format") : 0;
    enum err rc = ERR_OK;

    r->epoch = about != NULL ? json_get_u64(about, "epoch") : 0;
    json_decref(about);
    if (r->had_about || format == 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "what the backup says of itself can't be read, or stands twice");
    if (format > FORMAT_MAX)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "the backup has format %" PRIu64 ", this program reads 1 to %u",
                       format, FORMAT_MAX);
    if (r->epoch > EXPORTED_EPOCH_MAX)
        return err_set(eb, ERR_CORRUPT,
                       "the backup is of a node of %" PRIu64 " starts, at most %" PRIu64
                       " are believed",
                       r->epoch, EXPORTED_EPOCH_MAX);
    r->had_about = true;
    rc = begin_mark(r, eb);
    if (rc == ERR_OK)
        rc =
            node_offline_raise(a->at + 1, (unsigned)a->count - 1, r->epoch, &r->node, eb);
    return rc == ERR_OK && r->keys_unsealed ? restore_put_keys(r, eb) : rc;
}

/* ---- state ---- */

/* Buckets stand in the log as well. */
static enum err
note_buckets(struct restoring *r, struct errbuf *eb)
{
    enum err rc = node_offline_map(&r->node, eb);
    uint32_t count = rc == ERR_OK ? map_bucket_count(map_now(r->node.map)) : 0;

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        const struct map_bucket *b =
            map_bucket_ref(map_bucket_at(map_now(r->node.map), i));
        struct buf record;

        buf_init(&record, KIB(64));
        map_bucket_encode(b, &record);
        rc = disks_bucket_note(r->node.disks, b->id, buf_span(&record), eb);
        buf_fini(&record);
        map_bucket_drop(&b);
        r->buckets++;
    }
    return rc;
}

static enum err
take_state(struct restoring *r, struct errbuf *eb)
{
    struct span dump = buf_span(&r->small), key, value;
    enum err rc;

    if (r->had_state || !r->had_about)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "the node's state stands twice in the backup, or before what it says "
            "of itself");
    rc = restore_check_state(dump, (unsigned)r->tool->args->count - 1, eb);
    if (rc != ERR_OK)
        return rc;
    while ((rc = meta_dump_next(&dump, &key, &value, eb)) == ERR_OK) {
        if (!map_is_own_key(key))
            rc = put_pair(r, key, value, eb);
        if (rc != ERR_OK)
            return rc;
    }
    r->had_state = true;
    return rc == ERR_NOT_FOUND ? note_buckets(r, eb) : rc;
}

/* ---- the archive ---- */

static enum err
end_member(struct restoring *r, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    if (r->member == M_OBJECT)
        rc = import_end(&r->import, eb);
    else if (r->member == M_ABOUT)
        rc = take_about(r, eb);
    else if (r->member == M_STATE)
        rc = take_state(r, eb);
    else if (r->member == M_KEYS)
        rc = restore_take_keys(r, eb);
    r->member = M_SKIP;
    return rc;
}

static enum err
begin_object(struct restoring *r, const struct tar_head *h, struct errbuf *eb)
{
    struct exported e;
    bool wanted = false;
    enum err rc;

    if (!r->had_state)
        return err_set(eb, ERR_BAD_REQUEST,
                       "this is no backup: an object stands before the node's state; "
                       "forebay disk import takes archives of objects");
    rc = exported_read(h->xattr, r->arena, &e, eb);
    if (rc == ERR_OK && e.size != h->size)
        rc = err_set(eb, ERR_CORRUPT, "a member's record and its header disagree");
    if (rc == ERR_OK && e.born.epoch > r->epoch)
        rc = err_set(eb, ERR_CORRUPT,
                     "a version of epoch %" PRIu64 " in a backup of epoch %" PRIu64,
                     e.born.epoch, r->epoch);
    if (rc == ERR_OK)
        exported_place(&e, h->path);
    if (rc == ERR_OK)
        rc = import_begin(&r->import, &e, true, &wanted, eb);
    r->member = rc == ERR_OK && wanted ? M_OBJECT : M_SKIP;
    return rc;
}

static enum err
begin_member(void *arg, const struct tar_head *h, struct errbuf *eb)
{
    struct restoring *r = arg;
    enum err rc = end_member(r, eb);
    uint32_t most;

    arena_reset(r->arena);
    buf_clear(&r->small);
    if (rc != ERR_OK)
        return rc;
    if (h->xattr.len > 0)
        return begin_object(r, h, eb);
    if (span_is(h->path, ".forebay/backup"))
        r->member = M_ABOUT;
    if (span_is(h->path, ".forebay/state"))
        r->member = M_STATE;
    if (span_is(h->path, ".forebay/keys"))
        r->member = M_KEYS;
    r->ended = r->ended || span_is(h->path, ".forebay/end");
    most = r->member == M_ABOUT ? NODE_RESTORING_MAX : SMALL_MAX;
    if (r->member != M_SKIP && h->size > most)
        return err_set(eb, ERR_TOO_LARGE,
                       "\"%.*s\" has %" PRIu64 " bytes, at most %u are taken",
                       SPAN_ARG(h->path), h->size, most);
    return ERR_OK;
}

static enum err
take_data(void *arg, struct span data, struct errbuf *eb)
{
    struct restoring *r = arg;

    if (r->member == M_OBJECT)
        return import_data(&r->import, data, eb);
    if (r->member != M_SKIP)
        buf_put_span(&r->small, data);
    return ERR_OK;
}

static enum err
end_archive(void *arg, struct errbuf *eb)
{
    struct restoring *r = arg;
    enum err rc = end_member(r, eb);

    if (rc == ERR_OK && !r->ended)
        rc = err_set(eb, ERR_INCOMPLETE,
                     "the backup is cut: its last member is missing. What it holds was "
                     "restored");
    return rc;
}

static enum err
read_archive(struct restoring *r, const char *path, struct errbuf *eb)
{
    struct archive_members members = {
        .arg = r, .begin = begin_member, .data = take_data, .end = end_archive};

    return archive_read_tar(path, &members, eb);
}

/* ---- */

static void
restore_say(void *arg, const char *sentence)
{
    const struct restoring *r = arg;

    disk_tool_say(r->tool, "note", sentence);
}

static void
restore_on_bytes(void *arg, uint64_t bytes)
{
    const struct restoring *r = arg;

    disk_tool_progress(r->tool, "restored", r->tool->progress.bytes + bytes, 0);
}

static void
restore_all(struct disk_tool *t, struct restoring *r)
{
    struct errbuf eb = {{0}};
    enum err rc;

    import_start(&r->import, &r->node, &r->options);
    t->rc = read_archive(r, t->args->at[0], &t->eb);
    rc = import_finish(&r->import, &eb);
    if (t->rc == ERR_OK && rc != ERR_OK) {
        t->rc = rc;
        t->eb = eb;
    }
    if (t->rc == ERR_OK)
        t->rc = end_mark(r, &t->eb);
}

static void
restore_work(struct disk_tool *t)
{
    struct restoring *r = t->arg;
    const struct args *a = t->args;
    const char *file = args_value(a, "passphrase-file");

    r->options = (struct import_options){.exact_buckets = true,
                                         .say = restore_say,
                                         .progress = restore_on_bytes,
                                         .arg = r};
    r->arena = arena_new(4096, MIB(1));
    buf_init(&r->small, SMALL_MAX);
    buf_init(&r->keys, SMALL_MAX);
    if (file != NULL)
        t->rc = passphrase_load(file, &r->passphrase, &t->eb);
    if (t->rc == ERR_OK)
        t->rc = restore_check_file(a->at[0], (unsigned)a->count - 1, &t->eb);
    if (t->rc == ERR_OK)
        t->rc = node_offline_open(a->at + 1, (unsigned)a->count - 1, &r->node, &t->eb);
    if (t->rc == ERR_OK)
        t->rc = restore_check_new(r, &t->eb);
    if (t->rc == ERR_OK)
        restore_all(t, r);
    node_offline_close(&r->node);
    if (r->small.len > 0)
        OPENSSL_cleanse(r->small.at, r->small.len);
    buf_fini(&r->small);
    if (r->keys.len > 0)
        OPENSSL_cleanse(r->keys.at, r->keys.len);
    buf_fini(&r->keys);
    arena_free(&r->arena);
    passphrase_wipe(&r->passphrase);
}

static enum exit_code
restore_report(const struct disk_tool *t, const struct restoring *r)
{
    const struct imported *i = &r->import.result;
    char size[NUM_SIZE_TEXT];

    if (t->json) {
        printf("{\"buckets\":%" PRIu64 ",\"objects\":%" PRIu64 ",\"older\":%" PRIu64
               ",\"markers\":%" PRIu64 ",\"uploads\":%" PRIu64 ",\"parts\":%" PRIu64
               ",\"bytes\":%" PRIu64 ",\"same\":%" PRIu64 ",\"left_out\":%" PRIu64
               ",\"keys\":%s}\n",
               r->buckets, i->objects, i->older, i->markers, i->uploads, i->parts,
               i->bytes, i->same, i->refused, r->keys_opened ? "true" : "false");
    } else {
        printf("restored %" PRIu64 " buckets, %" PRIu64 " objects, %" PRIu64
               " older versions, %" PRIu64 " delete markers, %" PRIu64
               " uploads in progress, %s; %" PRIu64 " already present, %" PRIu64
               " left out\n",
               r->buckets, i->objects, i->older, i->markers, i->uploads,
               num_size_text(i->bytes, size), i->same, i->refused);
        if (!r->keys_opened)
            printf("%s; the first start makes new ones\n",
                   r->had_keys ? "the keys in the backup stay sealed: there was no "
                                 "--passphrase-file"
                               : "the backup has no keys");
    }
    return i->refused == 0 ? EXIT_OK_ : EXIT_DIFFERS;
}

static enum exit_code
restore_run(const struct args *a)
{
    static struct restoring r; /* one a process */
    struct disk_tool t = {.args = a};
    enum err rc;

    r.tool = &t;
    rc = disk_tool_run(&t, a, restore_work, &r);
    return rc == ERR_OK ? restore_report(&t, &r) : cli_fail(rc, &t.eb);
}

const struct cli_verb cli_restore = {&verb, restore_run};
