/* forebay disk check --repair: what can be mended without a second copy, is; what can't is named. Check, mend, check. */
#include "store/core/core.h"
#include "store/index/suspect.h"
#include "store/offline/check.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/record/superblock.h"
#include "store/recover/recover.h"
#include "store/segment/segment.h"
#include "store/store.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/store_options.h"
#include "store/store_rescue.h"
#include "store/store_write.h"
#include "store/wal/flush.h"
#include "store/wal/wal.h"
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct repairing {
    const char *path;
    const struct store_repair_options *o;
    struct store_repaired *out;
};

static void PRINTF(2, 3) on_told(struct repairing *r, const char *fmt, ...)
{
    char text[512];
    va_list ap;

    r->out->mended++;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    r->o->say(r->o->arg, STORE_SAYS_REPAIRED, text);
}

static void
report_finding(void *arg, bool fault, const char *sentence)
{
    struct repairing *r = arg;

    r->o->say(r->o->arg, fault ? STORE_SAYS_DAMAGED : STORE_SAYS_NOTE, sentence);
}

static void
report_nothing(void *arg, bool fault, const char *sentence)
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
new_check(struct repairing *r, struct store_checked *result, bool quiet)
{
    struct check *k = check_new();

    *result = (struct store_checked){0};
    k->result = result;
    k->say = quiet ? report_nothing : report_finding;
    k->arg = r;
    k->progress = pass_progress;
    return k;
}

/* ---- without opening the disk: its files as such ---- */

/* Both copies are of no use: nothing else can be looked at before. */
static enum err
repair_superblocks(struct repairing *r, struct errbuf *eb)
{
    struct rt_dir *root = NULL, *state = NULL;
    struct superblock s;
    struct store_rebuilt rebuilt;
    struct store_rebuild_options o = {.dry_run = true};
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
    rc = store_rebuild(r->path, &o, &rebuilt, eb);
    if (rc == ERR_OK && rebuilt.superblock)
        on_told(r, "both superblocks: rebuilt from the headers of segments");
    return rc;
}

/* The header of a segment says what its name, its first record and its size say as well. */
static enum err
repair_header(struct repairing *r, struct store *d, const struct check_header *h,
              struct errbuf *eb)
{
    struct segment *s = NULL;
    struct log_record head = {.kind = LOG_RECORD_SEGMENT_HEADER};
    struct iobuf *b = NULL;
    struct rt_file *f = NULL;
    struct buf bytes;
    char name[SEGMENT_NAME_ROOM];
    enum err rc = segment_open(d, h->class, h->kind, h->id, &s, eb);

    assert(h->class < STORE_CLASSES_);
    buf_init(&bytes, HEAD_MAX);
    segment_name(h->kind, h->id, name);
    if (rc == ERR_OK)
        rc = rt_open(d->dir[h->class], name, RT_O_WRITE | RT_O_DIRECT, 0, &f, eb);
    if (rc == ERR_OK)
        rc = iobuf_get(STORE_ALIGN, &b);
    if (rc == ERR_OK) {
        head.segment = s->id;
        head.generation = s->generation;
        head.epoch = d->epoch;
        head.class = s->class;
        head.segment_kind = s->kind;
        head.first_batch = s->first_batch;
        head.segment_bytes = s->owner.size;
        head.mtime_ms = (int64_t)(rt_wall_ns() / 1000000);
        memcpy(head.cluster_id, d->o.cluster_id, sizeof head.cluster_id);
        memcpy(head.disk_id, d->disk_id, sizeof head.disk_id);
        log_record_encode(&head, STORE_ALIGN, &bytes);
        memcpy(b->at, bytes.at, STORE_ALIGN);
        rc = rt_write(f, 0, b, 0, STORE_ALIGN, RT_WRITE, eb);
    }
    if (rc == ERR_OK)
        rc = rt_sync(f, eb);
    if (rc == ERR_OK)
        on_told(r, "segment %s: its header was written again", name);
    iobuf_drop(&b);
    buf_fini(&bytes);
    rt_file_close(&f);
    segment_drop(&s);
    return rc;
}

static enum err
repair_headers(struct repairing *r, struct check *k, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    segment_table_clear(k->disk); /* opened once more, by who mends them */
    for (unsigned c = 0; c < STORE_CLASSES_; c++)
        list_init(&k->disk->segments->of_class[c]);
    for (uint32_t i = 0; rc == ERR_OK && i < k->repair.header_count; i++) {
        struct errbuf why = {0};

        rc = repair_header(r, k->disk, &k->repair.headers[i], &why);
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
open_disk(struct repairing *r, bool rebuild, struct store **out, struct errbuf *eb)
{
    struct store_options o = {
        .node = 1, .rebuild = rebuild, .owner_loop = rt_loop_index()};
    struct store_identity id;
    enum err rc = store_identify(r->path, &id, eb);

    memcpy(o.cluster_id, id.cluster_id, sizeof o.cluster_id);
    return rc == ERR_OK ? store_open(r->path, &o, out, eb) : rc;
}

static enum err
repair_chains(struct repairing *r, struct store *d, const struct check_chain *chains,
              uint32_t count, struct errbuf *eb)
{
    enum err rc = ERR_OK;

    for (uint32_t i = 0; rc == ERR_OK && i < count; i++) {
        const struct check_chain *c = &chains[i];
        uint64_t mended = 0;

        if (c->living == 0)
            continue;
        rc = check_repair_chain(d, c->class, c->segment, c->living, &mended, eb);
        if (rc == ERR_OK && mended > 0)
            on_told(r, "segment %06" PRIu32 ": %" PRIu64 " headers were written again",
                    c->segment, mended);
    }
    return rc;
}

/* What is lost stays lost: what is left of these keys is served again. */
static enum err
accept_losses(struct repairing *r, struct store *d, struct errbuf *eb)
{
    uint32_t left = atomic_load(&d->suspects->left);
    bool all = d->suspects->all;
    enum err rc;

    suspects_forget(d->suspects);
    rc = suspects_persist(d, eb);
    if (rc == ERR_OK)
        on_told(r,
                "the loss of changes of %" PRIu32
                " keys%s is accepted: what is left of them is served",
                left, all ? " and of keys that are not known" : "");
    return rc;
}

/* What the first look found, but for objects. */
static enum err
repair_files(struct repairing *r, struct errbuf *eb)
{
    struct check *k = new_check(r, &r->out->before, false);
    struct check_chain *chains;
    uint32_t chain_count;
    bool index, work, suspects, missing;
    struct store *d;
    enum err rc = check_run(k, r->path, r->o->scratch, eb);

    if (rc == ERR_OK)
        rc = repair_headers(r, k, eb);
    index = k->repair.index;
    suspects = k->repair.suspects;
    missing = k->disk->wals->missing > 0;
    work = index || suspects || k->repair.superblock || k->repair.header_count > 0;
    for (uint32_t i = 0; i < k->chain_count; i++)
        work |= k->chains[i].living > 0;
    if (rc == ERR_OK && k->repair.superblock)
        on_told(r, "the superblock and its twin were written again");
    chains = k->chains; /* ours from here on */
    chain_count = k->chain_count;
    k->chains = NULL;
    check_free(&k);              /* the lock goes with it */
    if (rc == ERR_OK && missing) /* what it says decides about everything else */
        work = false;
    if (rc == ERR_OK && work) {
        rc = open_disk(r, index, &d, eb); /* writes both superblocks */
        if (rc == ERR_OK) {
            if (index)
                on_told(r, "the index was rebuilt from the logs");
            rc = repair_chains(r, d, chains, chain_count, eb);
            if (rc == ERR_OK && suspects)
                rc = accept_losses(r, d, eb);
            store_close(&d);
        }
    }
    free(chains);
    return rc;
}

static enum err
drop_lost(struct repairing *r, const struct check_repair *found, struct errbuf *eb)
{
    struct store *d;
    enum err rc = open_disk(r, false, &d, eb);

    assert(found->lost_count <= CHECK_LOST_MAX);
    for (uint32_t i = 0; rc == ERR_OK && i < found->lost_count; i++) {
        const struct check_lost *l = &found->lost[i];
        struct store_key key = {.bucket = l->bucket, .key = {l->key, l->key_len}};
        struct store_condition same = {.if_content = true, .content = l->content};
        char text[CHECK_KEY_TEXT];
        bool existed;

        if (l->class == STORE_NATIVE && !r->o->drop_damaged)
            continue;
        rc = store_delete(d, &key, l->class, &same, &existed, eb);
        if (rc == ERR_OK)
            on_told(r, "%s: dropped", check_key(l->bucket, key.key, text));
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
        store_close(&d);
    return rc;
}

static bool
has_cached(const struct check_repair *found)
{
    for (uint32_t i = 0; i < found->lost_count; i++)
        if (found->lost[i].class == STORE_CACHED)
            return true;
    return false;
}

/* The second look: what is still damaged is lost. */
static enum err
repair_objects(struct repairing *r, struct errbuf *eb)
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
look_once(struct repairing *r, struct store_checked *result, struct errbuf *eb)
{
    struct check *k = new_check(r, result, false);
    enum err rc = check_run(k, r->path, r->o->scratch, eb);

    check_free(&k);
    return rc;
}

enum err
store_repair(const char *path, const struct store_repair_options *o,
             struct store_repaired *out, struct errbuf *eb)
{
    struct repairing r = {path, o, out};
    uint64_t mended;
    enum err rc;

    *out = (struct store_repaired){0};
    if (o->look_only) {
        rc = look_once(&r, &out->before, eb);
        out->after = out->before;
        return rc;
    }
    rc = repair_superblocks(&r, eb);
    if (rc == ERR_OK)
        rc = repair_files(&r, eb);
    out->after = out->before;
    mended = out->mended;
    if (rc != ERR_OK || (out->before.faults == 0 && mended == 0))
        return rc;
    rc = repair_objects(&r, eb);
    if (rc != ERR_OK || (out->mended == mended && out->after.faults == 0))
        return rc;
    o->say(o->arg, STORE_SAYS_NOTE, "what is left after the repair:");
    return look_once(&r, &out->after, eb);
}
