/* A log of which both are damaged: the header, and the first batch, which says the same. Any later batch says it as well,
 * where it is certain that it belongs to the log's present life. */

#include <assert.h>
#include <inttypes.h>

#include "base/log.h"
#include "store/core/core.h"
#include "store/record/format.h"
#include "store/record/log_record.h"
#include "store/recover/recover.h"
#include "store/segment/scan.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/wal/truncated.h"
#include "store/wal/wal.h"

/* Is all of the first block zeros? So is that of a spare, whose batches are of its former life, and of one that was never
 * used. */
static enum err
is_spare(struct rt_file *f, bool *out, struct errbuf *eb)
{
    struct iobuf *b;
    uint32_t n = 0;
    enum err rc = iobuf_get(STORE_ALIGN, &b);

    *out = true;
    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer for the first block of a log");
    rc = rt_read(f, STORE_ALIGN, b, 0, STORE_ALIGN, RT_READ, DEADLINE_NEVER, &n, eb);
    for (uint32_t i = 0; rc == ERR_OK && *out && i < n; i++)
        *out = b->at[i] == '\0';
    iobuf_drop(&b);
    return rc;
}

/* The first record of a log's that stands where it says. */
static enum err
find_member(const struct segment *s, struct log_record *out, bool *found,
            struct errbuf *eb)
{
    struct iobuf *b;
    enum err rc = iobuf_get_beyond(IOBUF_MAX, &b);
    uint32_t n = IOBUF_MAX;

    *found = false;
    if (rc != ERR_OK)
        return err_set(eb, rc, "no buffer to read a log");
    for (uint64_t at = STORE_ALIGN; rc == ERR_OK && !*found && n > HEAD_MAX;) {
        uint32_t look = 0;

        rc = rt_read(s->file, at, b, 0, IOBUF_MAX, RT_READ, DEADLINE_NEVER, &n, eb);
        for (; rc == ERR_OK && !*found && look + HEAD_MAX <= n; look += STORE_ALIGN) {
            size_t need;

            *found = log_record_parse((struct span){b->at + look, n - look}, out, &need,
                                      NULL) == LOG_RECORD_OK &&
                     out->segment == s->id && out->offset == at + look &&
                     out->kind != LOG_RECORD_SEGMENT_HEADER &&
                     out->kind < LOG_RECORD_BODY && out->batch > 1;
        }
        at += look;
    }
    iobuf_drop(&b);
    return rc;
}

/* Nothing of a former life is left in a file of the first one. Of a later one: what compaction had taken out is listed, or
 * older than all logs. */
static bool
is_present(const struct store *d, const struct segment *s, const struct log_record *m)
{
    assert(m->batch > 1);
    assert(s->kind == SEGMENT_LOG);
    if (truncated_covers(&d->wals->truncated, s->class, m->batch, m->batch))
        return false;
    if (m->generation == 1)
        return true;
    LIST_EACH(&d->segments->of_class[s->class], n)
    {
        const struct segment *o = LIST_ENTRY(n, struct segment, owner.of_class);

        if (o->kind == SEGMENT_LOG && o->first_batch != 0 && o->first_batch < m->batch)
            return true;
    }
    return false;
}

enum err
recover_headless_wal(struct store *d, uint32_t id, struct segment **out,
                     struct errbuf *eb)
{
    struct segment *s;
    struct log_record m;
    bool spare = true, found = false;
    enum err rc = segment_open_headless(d, STORE_NATIVE, id, &s, eb);

    *out = NULL;
    if (rc == ERR_OK)
        rc = is_spare(s->file, &spare, eb);
    if (rc == ERR_OK && !spare)
        rc = find_member(s, &m, &found, eb);
    if (rc == ERR_OK && (!found || !is_present(d, s, &m)))
        rc = err_set(eb, ERR_CORRUPT,
                     "segment log-%06" PRIu32
                     ".tar: its header is damaged, and so is what stands behind it%s",
                     id,
                     found ? "; what follows may be of an earlier life of the file" : "");
    if (rc == ERR_OK) {
        LOG(LOG_ERROR, "store.wal_head_damaged",
            "header and first group are lost; what follows them is read",
            L_TEXT("disk", rt_dir_path(d->root)), L_U64("segment", id),
            L_U64("offset", m.offset), L_U64("group", m.batch));
        segment_join(s, m.generation, m.batch - 1);
        *out = s;
        return ERR_OK;
    }
    segment_drop(&s);
    return rc;
}
