/* forebay disk check --repair: what can be mended without a second copy, is; what can't is named. Check, mend, check. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "disk/check.h"
#include "disk/recover.h"
#include "disk/rescue.h"
#include "disk/segment.h"
#include "disk/superblock.h"

struct repairing {
    const char *path;
    const struct disk_repair_options *o;
    struct disk_repaired *out;
};

static void PRINTF(2, 3) told(struct repairing *r, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    r->out->mended++;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->o->say(r->o->arg, DISK_SAYS_MENDED, text);
}

static void
say_finding(void *arg, bool fault, const char *sentence)
{
    struct repairing *r = arg;

    r->o->say(r->o->arg, fault ? DISK_SAYS_DAMAGED : DISK_SAYS_NOTE, sentence);
}

static void
say_nothing(void *arg, bool fault, const char *sentence)
{
    (void)arg;
    (void)fault;
    (void)sentence;
}

static void
pass_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    const struct repairing *r = arg;

    if (r->o->progress != NULL)
        r->o->progress(r->o->arg, what, done, total);
}

static struct check *
new_check(struct repairing *r, struct disk_checked *result, bool quiet)
{
    struct check *k = check_new();

    *result = (struct disk_checked){0};
    k->result = result;
    k->say = quiet ? say_nothing : say_finding;
    k->arg = r;
    k->progress = pass_progress;
    return k;
}

/* ---- without opening the disk: its files as such ---- */

/* Both copies are of no use: nothing else can be looked at before. */
static enum err
mend_superblocks(struct repairing *r, struct errbuf *eb)
{
    struct rt_dir *root = NULL, *state = NULL;
    struct superblock s;
    struct disk_rebuilt rebuilt;
    struct disk_rebuild_options o = {.dry_run = true};
    struct errbuf why = {0};
    enum err rc = rt_dir_open(r->path, &root, eb);

    if (rc == ERR_OK)
        rc = rt_dir_open_at(root, ".forebay", &state, &why);
    if (rc == ERR_OK)
        rc = superblock_load(state, &s, &why);
    rt_dir_close(&state);
    rt_dir_close(&root);
    if (rc != ERR_CORRUPT)
        return ERR_OK; /* the check says what else there is to say */
    o.superblock_only = true;
    o.dry_run = false;
    rc = disk_rebuild(r->path, &o, &rebuilt, eb);
    if (rc == ERR_OK && rebuilt.superblock)
        told(r, "both superblocks: made anew from the headers of segments");
    return rc;
}

/* The header of a segment says what its name, its first member and its size say as well. */
static enum err
mend_header(struct repairing *r, struct disk *d, const struct check_header *h,
            struct errbuf *eb)
{
    struct segment *s = NULL;
    struct member head = {.kind = MEMBER_SEGMENT_HEADER};
    struct iobuf *b = NULL;
    struct rt_file *f = NULL;
    struct buf bytes;
    char name[SEGMENT_NAME_ROOM];
    enum err rc = segment_open(d, h->class, h->kind, h->id, &s, eb);

    buf_init(&bytes, HEAD_MAX);
    segment_name(h->kind, h->id, name);
    if (rc == ERR_OK)
        rc = rt_open(d->dir[h->class], name, RT_O_WRITE | RT_O_DIRECT, 0, &f, eb);
    if (rc == ERR_OK)
        rc = iobuf_get(DISK_ALIGN, &b);
    if (rc == ERR_OK) {
        head.segment = s->id;
        head.generation = s->generation;
        head.epoch = d->epoch;
        head.class = s->class;
        head.segment_kind = s->kind;
        head.first_group = s->first_group;
        head.segment_bytes = s->home.size;
        head.mtime_ms = (int64_t)(rt_wall_ns() / 1000000);
        memcpy(head.cluster_id, d->o.cluster_id, sizeof head.cluster_id);
        memcpy(head.disk_id, d->disk_id, sizeof head.disk_id);
        member_encode(&head, DISK_ALIGN, &bytes);
        memcpy(b->at, bytes.at, DISK_ALIGN);
        rc = rt_write(f, 0, b, 0, DISK_ALIGN, RT_WRITE, eb);
    }
    if (rc == ERR_OK)
        rc = rt_sync(f, eb);
    if (rc == ERR_OK)
        told(r, "segment %s: its header was written anew", name);
    iobuf_drop(&b);
    buf_fini(&bytes);
    rt_file_close(&f);
    segment_drop(&s);
    return rc;
}

static enum err
mend_headers(struct repairing *r, struct check *k, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    segment_table_clear(k->disk); /* opened once more, by who mends them */
    for (unsigned c = 0; c < DISK_CLASSES_; c++)
        list_init(&k->disk->home.segments_of[c]);
    for (uint32_t i = 0; rc == ERR_OK && i < k->repair.header_count; i++) {
        struct errbuf why = {0};

        rc = mend_header(r, k->disk, &k->repair.headers[i], &why);
        if (rc == ERR_CORRUPT) { /* nothing stands in it: left alone */
            rc = ERR_OK;
            continue;
        }
        if (rc != ERR_OK)
            *eb = why;
    }
    return rc;
}

/* ---- on the open disk ---- */

static enum err
open_disk(struct repairing *r, bool rebuild, struct disk **out, struct errbuf *eb)
{
    struct disk_options o = {.node = 1, .rebuild = rebuild, .home_loop = rt_loop_index()};
    struct disk_identity id;
    enum err rc = disk_identify(r->path, &id, eb);

    memcpy(o.cluster_id, id.cluster_id, sizeof o.cluster_id);
    return rc == ERR_OK ? disk_open(r->path, &o, out, eb) : rc;
}

static enum err
mend_chains(struct repairing *r, struct disk *d, const struct check_chain *chains,
            uint32_t count, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        const struct check_chain *c = &chains[i];
        uint64_t mended = 0;

        if (c->living == 0)
            continue;
        rc = check_mend_chain(d, c->class, c->segment, c->living, &mended, eb);
        if (rc == ERR_OK && mended > 0)
            told(r, "segment %06" PRIu32 ": %" PRIu64 " headers were written anew",
                 c->segment, mended);
    }
    return rc;
}

/* What the first look found, but for objects. */
static enum err
mend_files(struct repairing *r, struct errbuf *eb)
{
    struct check *k = new_check(r, &r->out->before, false);
    struct check_chain *chains;
    uint32_t chain_count;
    bool index, work;
    struct disk *d;
    enum err rc = check_run(k, r->path, r->o->scratch, eb);

    if (rc == ERR_OK)
        rc = mend_headers(r, k, eb);
    index = k->repair.index;
    work = index || k->repair.superblock || k->repair.header_count > 0;
    for (uint32_t i = 0; i < k->chain_count; i++)
        work |= k->chains[i].living > 0;
    if (rc == ERR_OK && k->repair.superblock)
        told(r, "the superblock and its twin were written anew");
    chains = k->chains; /* ours from here on */
    chain_count = k->chain_count;
    k->chains = NULL;
    check_free(&k); /* the lock goes with it */
    if (rc == ERR_OK && work) {
        rc = open_disk(r, index, &d, eb); /* writes both superblocks */
        if (rc == ERR_OK) {
            if (index)
                told(r, "the index was made anew from the logs");
            rc = mend_chains(r, d, chains, chain_count, eb);
            disk_close(&d);
        }
    }
    free(chains);
    return rc;
}

static enum err
drop_lost(struct repairing *r, const struct check_repair *found, struct errbuf *eb)
{
    struct disk *d;
    enum err rc = open_disk(r, false, &d, eb);

    for (uint32_t i = 0; rc == ERR_OK && i < found->lost_count; i++) {
        const struct check_lost *l = &found->lost[i];
        struct disk_key key = {.bucket = l->bucket, .key = {l->key, l->key_len}};
        struct disk_condition same = {.if_content = true, .content = l->content};
        char text[CHECK_KEY_TEXT];
        bool existed;

        if (l->class == DISK_NATIVE && !r->o->drop_damaged)
            continue;
        rc = disk_delete(d, &key, l->class, &same, &existed, eb);
        if (rc == ERR_OK)
            told(r, "%s: dropped", check_key(l->bucket, key.key, text));
        if (rc == ERR_OK)
            r->out->dropped++;
        if (rc == ERR_NOT_FOUND || rc == ERR_PRECONDITION)
            rc = ERR_OK; /* an older version: it stays, and is listed */
    }
    if (rc == ERR_OK && r->o->drop_damaged) {
        enum err gone = rt_dir_unlink(d->state, RECOVER_ORPHANS, eb);

        rc = gone == ERR_NOT_FOUND ? ERR_OK : gone;
    }
    if (rc == ERR_OK || d != NULL)
        disk_close(&d);
    return rc;
}

static bool
has_cached(const struct check_repair *found)
{
    for (uint32_t i = 0; i < found->lost_count; i++)
        if (found->lost[i].class == DISK_CACHED)
            return true;
    return false;
}

/* The second look: what is still damaged is lost. */
static enum err
mend_objects(struct repairing *r, struct errbuf *eb)
{
    struct check *k = new_check(r, &r->out->after, true);
    struct check_repair found;
    enum err rc = check_run(k, r->path, r->o->scratch, eb);

    found = k->repair; /* ours from here on */
    k->repair = (struct check_repair){0};
    check_free(&k);
    if (rc == ERR_OK && (has_cached(&found) || r->o->drop_damaged))
        rc = drop_lost(r, &found, eb);
    check_repair_fini(&found);
    return rc;
}

static enum err
look_once(struct repairing *r, struct disk_checked *result, struct errbuf *eb)
{
    struct check *k = new_check(r, result, false);
    enum err rc = check_run(k, r->path, r->o->scratch, eb);

    check_free(&k);
    return rc;
}

enum err
disk_repair(const char *path, const struct disk_repair_options *o,
            struct disk_repaired *out, struct errbuf *eb)
{
    struct repairing r = {path, o, out};
    uint64_t mended;
    enum err rc;

    *out = (struct disk_repaired){0};
    if (o->look_only) {
        rc = look_once(&r, &out->before, eb);
        out->after = out->before;
        return rc;
    }
    rc = mend_superblocks(&r, eb);
    if (rc == ERR_OK)
        rc = mend_files(&r, eb);
    out->after = out->before;
    mended = out->mended;
    if (rc != ERR_OK || (out->before.faults == 0 && mended == 0))
        return rc;
    rc = mend_objects(&r, eb);
    if (rc != ERR_OK || (out->mended == mended && out->after.faults == 0))
        return rc;
    o->say(o->arg, DISK_SAYS_NOTE, "what is left after the repair:");
    return look_once(&r, &out->after, eb);
}
