/* stream: one object in order, given to a callback; a broken transfer resumes with the same version. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/output.h"
#include "cli/transfer.h"
#include "cli/verify.h"
#include "rt/loop.h"

#define PIECE    (256u << 10)
#define ATTEMPTS 6

struct stream {
    struct session *s;
    struct s3_get get;
    struct arena *a, *first_arena;
    struct s3_object_info info; /* of the first answer */
    bool begun, whole;
    uint64_t at, end; /* of the object */
    struct verify verify;
    transfer_take *take;
    void *arg;
    char *room;
};

static uint64_t
part_of_object(struct stream *t)
{
    struct s3_object_info part;
    struct s3_failure f;
    struct errbuf eb = {{0}};
    unsigned char md5[16];
    unsigned parts = 0;

    if (!etag_parse(t->info.etag, md5, &parts) || parts == 0)
        return 0;
    if (s3_head_part(t->s->s3, t->get.bucket, t->get.key, 1, t->a, &part, &f, &eb) !=
            ERR_OK ||
        !part.partial)
        return parts == 1 ? t->info.size : 0;
    return part.body_length;
}

static void
first_answer(struct stream *t, const struct s3_object_info *info)
{
    t->begun = true;
    t->info = *info;
    t->at = info->range_first;
    t->end = info->range_first + info->body_length;
    t->get.if_match = info->etag;
    verify_init(&t->verify, info, t->whole ? part_of_object(t) : 0);
}

/* From where it stands to the end, or to where it breaks. */
static enum err
attempt(struct stream *t, struct s3_failure *f, bool *taker, struct errbuf *eb)
{
    struct s3_object_info info;
    struct s3_call *call = NULL;
    enum err rc;

    *taker = false;
    if (t->begun) {
        t->get.range = true;
        t->get.first = t->at;
        t->get.last = t->end - 1;
        arena_reset(t->a);
    }
    rc = s3_get_begin(t->s->s3, &t->get, t->begun ? t->a : t->first_arena, &info, &call,
                      f, eb);
    if (rc == ERR_OK && !t->begun)
        first_answer(t, &info);
    while (rc == ERR_OK) {
        size_t n = 0;

        rc = s3_read(call, t->room, PIECE, &n, eb);
        f->retry = rc != ERR_OK && rc != ERR_CANCELLED;
        if (rc != ERR_OK || n == 0)
            break;
        if (t->whole)
            verify_add(&t->verify, t->room, n);
        t->at += n;
        rc = t->take(t->arg, t->room, n, eb);
        *taker = rc != ERR_OK;
    }
    s3_end(&call);
    return rc == ERR_OK || *taker ? rc
                                  : transfer_damage(t->s->s3, &t->get, t->at, rc, f, eb);
}

static enum err
stream_run(struct stream *t, struct errbuf *eb)
{
    enum err rc = ERR_OK;
    bool taker = false;

    for (unsigned tries = 1;; tries++) {
        struct s3_failure f = {0};
        uint64_t before = t->at;

        rc = attempt(t, &f, &taker, eb);
        if (t->at > before)
            tries = 1;
        if (rc == ERR_OK || taker || !f.retry || tries >= (t->begun ? ATTEMPTS : 2))
            break;
        if (t->begun && t->at >= t->end)
            return ERR_OK;
        if (rt_sleep_ms(MAX(f.retry_after_ms, 100ull << tries)) != ERR_OK)
            return err_set(eb, ERR_CANCELLED, "interrupted");
    }
    if (taker && rc == ERR_NOT_MODIFIED)
        return ERR_OK;
    if (rc == ERR_OK && t->whole && !verify_end(&t->verify))
        return verify_refuse(&t->verify, &t->info, eb);
    return rc;
}

/* The last bytes: the size is asked for first. */
static enum err
from_behind(struct stream *t, const struct stream_range *range, struct errbuf *eb)
{
    struct s3_object_info info;
    struct s3_failure f;
    enum err rc =
        s3_head(t->s->s3, t->get.bucket, t->get.key, t->first_arena, &info, &f, eb);

    if (rc != ERR_OK)
        return rc;
    t->get.range = info.size > 0 && range->last > 0;
    t->get.first = info.size - MIN(info.size, range->last);
    t->get.last = UINT64_MAX;
    t->get.if_match = info.etag;
    return ERR_OK;
}

enum err
transfer_stream(struct session *s, struct span bucket, struct span key,
                const struct stream_range *range, transfer_take *take, void *arg,
                struct errbuf *eb)
{
    struct stream t = {.s = s,
                       .get = {.bucket = bucket, .key = key, .checksum_mode = true},
                       .whole = range == NULL || !range->set,
                       .take = take,
                       .arg = arg};
    enum err rc = ERR_OK;

    t.a = arena_new(KIB(16), MIB(1));
    t.first_arena = arena_new(KIB(16), MIB(1));
    t.room = xmalloc(PIECE);
    if (!t.whole && range->first == UINT64_MAX) {
        rc = from_behind(&t, range, eb);
    } else if (!t.whole) {
        t.get.range = true;
        t.get.first = range->first;
        t.get.last = range->last;
    }
    if (rc == ERR_OK)
        rc = stream_run(&t, eb);
    if (t.begun)
        verify_fini(&t.verify);
    free(t.room);
    arena_free(&t.a);
    arena_free(&t.first_arena);
    return rc;
}

struct write_job {
    const char *at;
    size_t len;
    int number; /* errno; 0: all is written */
};

static void
write_work(void *arg)
{
    struct write_job *j = arg;

    while (j->len > 0) {
        ssize_t n = write(1, j->at, j->len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            j->number = n < 0 ? errno : EIO;
            return;
        }
        j->at += n;
        j->len -= (size_t)n;
    }
}

enum err
transfer_to_stdout(void *arg, const char *at, size_t len, struct errbuf *eb)
{
    struct write_job j = {.at = at, .len = len};
    enum err rc = rt_blocking(write_work, &j, DEADLINE_NEVER);

    (void)arg;
    if (rc != ERR_OK)
        return err_set(eb, rc, "interrupted");
    return j.number != 0 ? output_failed(j.number, eb) : ERR_OK;
}
