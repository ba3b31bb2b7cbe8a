#include "store/recover/missing_logs.h"

#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/index/suspect.h"
#include "store/record/format.h"
#include "store/recover/recovery.h"
#include "store/recover/replay.h"
#include "store/segment/segment.h"
#include "store/wal/flush.h"
#include "store/wal/log_set.h"
#include "store/wal/wal.h"
#include "store/wal/watermark.h"

#define SUSPECT_BYTES_MAX (SUSPECTS_MAX * (SUSPECT_ENTRY_BYTES + 8) + 4096u)

/* A list that cannot be read says nothing: then any key may be suspect. */
static enum err
load_suspects(struct store *d, struct errbuf *eb)
{
    char *bytes = NULL;
    size_t len = 0;
    enum err rc =
        rt_file_load(d->state, SUSPECT_FILE, SUSPECT_BYTES_MAX, &bytes, &len, eb);

    if (rc == ERR_NOT_FOUND) {
        err_forget(eb);
        return ERR_OK;
    }
    if (rc == ERR_OK)
        rc = suspects_decode((struct span){bytes, len}, d->suspects, eb);
    free(bytes);
    if (rc != ERR_CORRUPT && rc != ERR_TOO_LARGE)
        return rc;
    LOG(LOG_ERROR, "store.suspects_damaged",
        "the list of keys whose changes are lost is damaged: all keys may be",
        L_TEXT("disk", rt_dir_path(d->root)),
        L_TEXT("error", eb != NULL ? eb->text : ""));
    suspects_bound_all(d->suspects, &(struct version){UINT64_MAX, UINT64_MAX});
    err_forget(eb);
    return ERR_OK;
}

enum err
missing_logs_load(struct store *d, struct errbuf *eb)
{
    enum err rc = log_set_load(d->state, &d->wals->set, eb);

    assert(d->index == NULL);
    if (rc == ERR_OK)
        rc = watermark_load(d->state, d->wals->mark, eb);
    return rc == ERR_OK ? load_suspects(d, eb) : rc;
}

static void
name_missing(struct store *d)
{
    char name[128];

    log_set_name_missing(&d->wals->set, name, sizeof name);
    LOG(LOG_ERROR, "store.log_missing",
        "a log is missing: the disk takes no writes and frees nothing; put the file "
        "back, or run forebay "
        "disk rebuild to continue without it",
        L_TEXT("disk", rt_dir_path(d->root)), L_TEXT("what", name));
}

/* An administrator continues with what is left. */
static void
forget_missing(struct store *d)
{
    name_missing(d);
    log_set_forget_missing(&d->wals->set);
    suspects_forget(d->suspects);
    d->wals->damaged = true;
}

enum err
missing_logs_find(struct store *d, struct errbuf *eb)
{
    struct log_set *s = &d->wals->set;
    bool cached;
    uint32_t missing = log_set_match(d, &cached);

    assert(d->wals->missing == 0);
    if (cached && !d->read_only)
        return replay_drop_cached(d, 1, eb);
    d->recovery->drop_cached |= cached;
    if (missing > 0 && d->o.rebuild) {
        forget_missing(d);
        missing = 0;
    }
    d->wals->missing = missing;
    if (d->read_only)
        return ERR_OK;
    if (missing > 0) {
        name_missing(d);
        d->wals->damaged = true;
        if (s->was_missing)
            return ERR_OK;
        s->was_missing = true;
        return log_set_persist(d, eb);
    }
    if (!s->was_missing)
        return ERR_OK;
    LOG(LOG_WARN, "store.logs_are_back",
        "all logs are there again: the index is made from them",
        L_TEXT("disk", rt_dir_path(d->root)));
    d->recovery->logs_are_back = true;
    suspects_forget(d->suspects); /* the replay finds again what is damaged */
    return ERR_OK;
}

void
missing_logs_resume(struct store *d, struct wal_position *native)
{
    const struct segment *next = NULL;

    assert(d->wals->missing > 0);
    LIST_EACH(&d->segments->of_class[STORE_NATIVE], n)
    {
        const struct segment *s = LIST_ENTRY(n, struct segment, owner.of_class);

        if (s->kind == SEGMENT_LOG && s->first_batch > native->batch &&
            (next == NULL || s->first_batch < next->first_batch))
            next = s;
    }
    d->recovery->skip_native = next == NULL;
    if (next != NULL)
        *native = (struct wal_position){.generation = next->generation,
                                        .segment = next->id,
                                        .offset = STORE_ALIGN,
                                        .batch = next->first_batch - 1};
}

enum err
missing_logs_compare(struct store *d, struct errbuf *eb)
{
    struct log_set *s = &d->wals->set;
    enum err rc = ERR_OK;

    index_set_suspects(d->index,
                       d->suspects); /* no loop remembers what was not verified */
    if (d->wals->missing == 0)
        return ERR_OK;
    if (!s->in_doubt &&
        log_set_uncovered(s, d->recovery->covered, d->wals->mark->batch, &s->bound)) {
        s->in_doubt = true;
        if (!d->read_only)
            rc = log_set_persist(d, eb);
    }
    if (s->in_doubt)
        suspects_bound_all(d->suspects, &s->bound);
    return rc;
}

enum err
missing_logs_end(struct store *d, struct errbuf *eb)
{
    struct log_set *s = &d->wals->set;
    bool changed =
        d->recovery->logs_are_back || (s->was_missing && d->wals->missing == 0);
    enum err rc = ERR_OK;

    assert(!d->read_only);
    if (d->o.rebuild && d->suspects->all) { /* who rebuilds continues with what is left */
        d->suspects->all = false;
        d->suspects->dirty = true;
    }
    if (d->wals->missing == 0)
        s->was_missing = s->in_doubt = false;
    changed |= log_set_update(d);
    if (changed)
        rc = log_set_persist(d, eb);
    if (rc == ERR_OK && d->wals->missing == 0)
        rc = watermark_begin(d, d->wals->of[STORE_NATIVE].next_batch - 1, eb);
    if (rc == ERR_OK)
        rc = suspects_persist(d, eb);
    if (rc != ERR_OK && rc != ERR_NO_SPACE)
        return rc;
    err_forget(eb);
    suspects_activate(d->suspects);
    return ERR_OK;
}
