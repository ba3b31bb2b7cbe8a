/* disk_jobs: changes of the disks that move objects, shown as jobs: the copies of a bucket, a disk being drained, a
 * disk being filled.
 *
 * `disks` does the work (disks/rebalance.c): it finds misplaced objects, throttles itself, and continues after a
 * restart. The job reports its progress, and ends when all disks have converged; so several jobs end at the same
 * moment, and none can be cancelled. Arguments are those of the request for the change, and `copied`: the bytes
 * that the disks had copied before it.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "disks/disks.h"
#include "job/internal.h"
#include "map/map.h"
#include "rt/fiber.h"
#include "rt/time.h"
#include "wire/json_get.h"

#define LOOK_MS 250u

static enum err
wants_text(const json_t *args, const char *name, struct errbuf *eb)
{
    const char *value = json_string_value(json_object_get(args, name));

    if (value == NULL || value[0] == '\0' || strlen(value) > 4000)
        return err_set(eb, ERR_BAD_REQUEST, "\"%s\" is a text of 1 to 4000 bytes", name);
    return ERR_OK;
}

static enum err
check_copies(struct job_service *s, const json_t *args, struct span list,
             struct buf *what, struct errbuf *eb)
{
    const char *name = json_string_value(json_object_get(args, "bucket"));
    uint64_t copies = json_get_u64(args, "copies");
    const struct map_bucket *b;
    enum err rc = wants_text(args, "bucket", eb);

    (void)list;
    if (rc != ERR_OK)
        return rc;
    b = map_bucket_find(map_now(s->options.map), span_of(name));
    if (b == NULL)
        return err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%.100s\"", name);
    if (b->cached || copies != MAX(b->copies, 1u))
        return err_set(eb, ERR_BAD_REQUEST,
                       "\"copies\" of bucket \"%.100s\" are %u; change them by PATCH "
                       "/_/buckets/NAME, which starts this job",
                       name, MAX(b->copies, 1u));
    buf_printf(what, "%s: %llu cop%s of each object", name, (unsigned long long)copies,
               copies == 1 ? "y" : "ies");
    return ERR_OK;
}

static enum err
check_disk(struct job_service *s, const json_t *args, struct span list, struct buf *what,
           struct errbuf *eb)
{
    enum err rc = wants_text(args, "disk", eb);

    (void)s;
    (void)list;
    if (rc == ERR_OK)
        buf_puts(what, json_string_value(json_object_get(args, "disk")));
    return rc;
}

struct watched {
    struct job *job;
    struct disks_status *now; /* owned; large */
    uint64_t begun_at;        /* bytes that the disks had copied */
    uint64_t before;          /* bytes that the job had counted */
};

/* A pass that finds a misplaced object is followed by another one: `objects` are those of the current pass. */
static void
disk_job_count(struct watched *w)
{
    const struct disks_status *s = w->now;
    struct job_counts *c = &w->job->counts;
    struct errbuf why = {{0}};

    c->bytes = w->before + s->copied_bytes - MIN(w->begun_at, s->copied_bytes);
    if (s->pass > 0) {
        c->total = MAX(s->total, s->seen);
        c->objects = s->seen - MIN(s->failed, s->seen);
    }
    if (s->failed > c->failed && s->why[0] != '\0') {
        (void)err_set(&why, ERR_IO, "%s", s->why);
        job_add_error(w->job, SPAN("moving"), &why);
    }
    c->failed = s->pass > 0 ? s->failed : 0;
    w->job->changed = true;
}

static enum err
disk_job_run(struct job *j, struct errbuf *eb)
{
    struct disks *ds = j->s->options.disks;
    struct watched w = {.job = j, .before = j->counts.bytes};
    enum err rc = ERR_OK;

    /* The count of an earlier start is gone. */
    if (j->position == NULL)
        w.begun_at = json_get_u64(j->args, "copied");
    job_set_position(j, SPAN("begun"));
    assert(j->kind->watches);
    w.now = xcalloc(1, sizeof *w.now);
    for (;;) {
        disks_status(ds, w.now);
        disk_job_count(&w);
        job_set_idle(j, w.now->waiting);
        if (w.now->converged || rc != ERR_OK)
            break;
        rc = rt_sleep_ms(LOOK_MS);
    }
    if (w.now->converged && (j->counts.total > 0 || j->counts.bytes > 0))
        j->counts.objects = j->counts.total = w.now->seen; /* of the last pass */
    free(w.now);
    return rc == ERR_OK ? rc : err_set(eb, ERR_CANCELLED, "the node stops");
}

const struct job_kind job_copies = {
    .name = "copies", .watches = true, .check = check_copies, .run = disk_job_run};
const struct job_kind job_drain = {
    .name = "drain", .watches = true, .check = check_disk, .run = disk_job_run};
const struct job_kind job_fill = {
    .name = "fill", .watches = true, .check = check_disk, .run = disk_job_run};
