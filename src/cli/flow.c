#include "cli/flow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/advice.h"
#include "cli/names.h"
#include "rt/file.h"
#include "wire/json.h"

#define PARALLEL      64
#define FIRST_LIMIT   16
#define ATTEMPTS      6
#define DELAY_MS      100
#define DELAY_MAX_MS  5000
#define AFTER_MAX_MS  30000
#define HALVE_EACH_NS 250000000u
#define TOLD_MAX      20 /* failures that get a line each */

/* ---- the gate ---- */

static enum err
gate_take(struct gate *g)
{
    while (g->used >= g->limit) {
        enum err rc = rt_cond_wait(&g->turn, DEADLINE_NEVER);

        if (rc != ERR_OK)
            return rc;
    }
    g->used++;
    return ERR_OK;
}

/* One more at once after as many good answers as there are at once; half at once after "slow down", but once for all that were on
 * their way together. */
static void
gate_give(struct gate *g, bool slow_down)
{
    uint64_t now = rt_now_ns();

    g->used--;
    if (slow_down && now - g->halved_ns > HALVE_EACH_NS) {
        g->limit = MAX(g->limit / 2, 1u);
        g->halved_ns = now;
        g->credit = 0;
    } else if (!slow_down && ++g->credit >= g->limit && g->limit < g->most) {
        g->limit++;
        g->credit = 0;
        rt_cond_signal(&g->turn);
    }
    rt_cond_signal(&g->turn);
}

static uint64_t
delay_ms(unsigned tries, const struct s3_failure *f)
{
    uint64_t base = MIN((uint64_t)DELAY_MS << tries, (uint64_t)DELAY_MAX_MS);
    uint32_t noise;

    rt_random(&noise, sizeof noise);
    base = base / 2 + noise % base;
    return MAX(base, MIN(f->retry_after_ms, (uint64_t)AFTER_MAX_MS));
}

enum err
flow_try(struct flow *f, flow_attempt *attempt, void *arg, struct errbuf *eb)
{
    enum err rc;

    for (unsigned tries = 1;; tries++) {
        /* Before anything went well, a second attempt is enough to report that no server responds. */
        unsigned most = f->done == 0 && f->progress.bytes == 0 ? 2 : ATTEMPTS;
        struct s3_failure failure = {0};

        rc = gate_take(&f->gate);
        if (rc != ERR_OK)
            return err_set(eb, rc, "interrupted");
        rc = attempt(arg, &failure, eb);
        if (failure.status != 0)
            most = ATTEMPTS;
        gate_give(&f->gate, failure.status == 503 || failure.status == 429);
        if (rc == ERR_OK || !failure.retry || tries >= most || rt_cancelled() || f->over)
            break;
        if (rt_sleep_ms(delay_ms(tries, &failure)) != ERR_OK)
            return err_set(eb, ERR_CANCELLED, "interrupted");
    }
    return rt_cancelled() && rc != ERR_OK ? ERR_CANCELLED : rc;
}

/* ---- a limited rate ---- */

void
flow_bytes(struct flow *f, uint64_t bytes)
{
    uint64_t now, due;

    progress_bytes(&f->progress, bytes);
    if (f->pace == NULL)
        return;
    now = rt_now_ns();
    due = pace_spent(f->pace, now, bytes);
    if (due > now)
        (void)!rt_sleep_ms((due - now) / 1000000u +
                           1); /* cancelled: the next call says so */
}

enum err
flow_limit_rate(struct flow *f, struct errbuf *eb)
{
    const char *text = args_value(f->s->args, "bwlimit");
    uint64_t rate = 0;
    enum err rc = text != NULL ? num_size(span_of(text), &rate, eb) : ERR_OK;

    if (rc == ERR_OK && text != NULL && rate < KIB(1))
        rc = err_set(eb, ERR_BAD_REQUEST, "\"%s\": at least 1KiB a second", text);
    if (rc != ERR_OK)
        err_prefix(eb, "--bwlimit");
    else if (rate > 0)
        f->pace = pace_new(rate);
    return rc;
}

/* ---- items ---- */

static const char *
flow_append(char **at, const char *text)
{
    char *here = *at;

    if (text == NULL)
        return NULL;
    strcpy(here, text);
    *at += strlen(text) + 1;
    return here;
}

static size_t
room_of(const char *text)
{
    return text != NULL ? strlen(text) + 1 : 0;
}

static struct item *
item_copy(const struct item *it)
{
    size_t room = room_of(it->from_bucket) + room_of(it->from) + room_of(it->to_bucket) +
                  room_of(it->to) + room_of(it->etag);
    struct item *copy = xmalloc(sizeof *copy + room);
    char *at = (char *)(copy + 1);

    *copy = *it;
    copy->from_bucket = flow_append(&at, it->from_bucket);
    copy->from = flow_append(&at, it->from);
    copy->to_bucket = flow_append(&at, it->to_bucket);
    copy->to = flow_append(&at, it->to);
    copy->etag = flow_append(&at, it->etag);
    return copy;
}

static void flow_work(void *arg);

static void
item_free(struct flow *f, struct item *it)
{
    if (f->drop != NULL && it->own != NULL)
        f->drop(it->own);
    free(it);
}

enum err
flow_add(struct flow *f, const struct item *it, struct errbuf *eb)
{
    while (f->count == FLOW_QUEUE && !f->over)
        if (rt_cond_wait(&f->room, DEADLINE_NEVER) != ERR_OK)
            return err_set(eb, ERR_CANCELLED, "interrupted");
    if (f->over || rt_cancelled())
        return err_set(eb, ERR_CANCELLED, "interrupted");
    f->queue[(f->head + f->count++) % FLOW_QUEUE] = item_copy(it);
    f->found++;
    f->progress.total++;
    f->progress.total_bytes += it->size;
    /* Another worker when those that wait have something to do already. */
    if (f->idle < f->count && f->workers < f->gate.most &&
        rt_group_start(&f->group, flow_work, f) == ERR_OK)
        f->workers++;
    rt_cond_signal(&f->more);
    return ERR_OK;
}

/* ---- telling ---- */

static char *
place_text(const char *bucket, const char *name)
{
    return bucket != NULL ? xasprintf("s3://%s/%s", bucket, name) : xstrdup(name);
}

void
flow_fail(struct flow *f, const char *what, enum err rc, const struct errbuf *eb)
{
    if (f->failed++ == 0) {
        f->rc = rc;
        f->first = *eb;
    }
    if (f->failed > TOLD_MAX + 1)
        return;
    progress_clear(&f->progress);
    if (f->failed == TOLD_MAX + 1)
        fprintf(stderr, "forebay: more failures follow; they are counted at the end\n");
    else
        (void)advice_fail(rc, eb, what, f->s);
}

void
flow_notice(struct flow *f, const char *what, const char *why)
{
    struct arena *a = arena_new(KIB(1), MIB(1));

    f->skipped++;
    if (!f->s->quiet) {
        progress_clear(&f->progress);
        fprintf(stderr, "forebay: left out: %.*s: %s\n",
                SPAN_ARG(name_shown(span_of(what), a)), why);
    }
    arena_free(&a);
}

static void
tell_json(struct flow *f, const char *from, const char *to, const struct item *it)
{
    struct buf text;
    struct json j;

    buf_init(&text, KIB(64));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_text(&j, "did", f->did);
    json_text(&j, "from", from);
    if (to != NULL)
        json_text(&j, "to", to);
    json_u64(&j, "bytes", it->size);
    json_end(&j);
    printf("%.*s\n", (int)text.len, text.at);
    buf_fini(&text);
}

static void
tell_done(struct flow *f, const struct item *it)
{
    struct arena *a;
    char *from, *to;

    if (f->silent || f->s->quiet || f->s->output == OUTPUT_JSON ||
        (it->to != NULL && it->to_bucket == NULL && strcmp(it->to, "-") == 0))
        return;
    a = arena_new(KIB(1), MIB(1));
    from = place_text(it->from_bucket, it->from);
    to = it->to != NULL ? place_text(it->to_bucket, it->to) : NULL;
    if (f->progress.terminal)
        progress_clear(&f->progress);
    if (f->s->output == OUTPUT_JSONL)
        tell_json(f, from, to, it);
    else if (f->s->output == OUTPUT_NAME)
        puts(to != NULL ? to : from);
    else if (to == NULL)
        printf("%s %.*s\n", f->did, SPAN_ARG(name_shown(span_of(from), a)));
    else
        printf("%s%s%.*s -> %.*s\n", f->dry ? f->did : "", f->dry ? " " : "",
               SPAN_ARG(name_shown(span_of(from), a)),
               SPAN_ARG(name_shown(span_of(to), a)));
    free(from);
    free(to);
    arena_free(&a);
}

static void
tell_json_end(const struct flow *f, double seconds)
{
    struct buf text;
    struct json j;

    buf_init(&text, KIB(4));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_text(&j, "did", f->did);
    json_u64(&j, "found", f->found);
    json_u64(&j, "done", f->done);
    json_u64(&j, "failed", f->failed);
    json_u64(&j, "left_out", f->skipped);
    json_u64(&j, "unchanged", f->unchanged);
    json_u64(&j, "bytes", f->progress.bytes);
    json_f64(&j, "seconds", seconds);
    json_end(&j);
    printf("%.*s\n", (int)text.len, text.at);
    buf_fini(&text);
}

/* "copied 12, 3 unchanged, 1 failed, 2 not begun; 3 MiB in 0.2 s, 15 MiB/s" */
static void
tell_sum(const struct flow *f, double seconds)
{
    char bytes[NUM_SIZE_TEXT], rate[NUM_SIZE_TEXT];
    uint64_t left = f->found - MIN(f->found, f->done + f->failed);

    fprintf(stderr, "%s %" PRIu64, f->did, f->done);
    if (f->unchanged > 0)
        fprintf(stderr, ", %" PRIu64 " unchanged", f->unchanged);
    if (f->skipped > 0)
        fprintf(stderr, ", %" PRIu64 " left out", f->skipped);
    if (f->failed > 0)
        fprintf(stderr, ", %" PRIu64 " failed", f->failed);
    if (left > 0)
        fprintf(stderr, ", %" PRIu64 "%s not begun", left,
                f->found_all ? "" : " and more");
    if (f->progress.bytes > 0)
        fprintf(
            stderr, "; %s in %.1f s, %s/s", num_size_text(f->progress.bytes, bytes),
            seconds,
            num_size_text((uint64_t)((double)(f->progress.bytes - f->progress.resumed) /
                                     MAX(seconds, 1e-3)),
                          rate));
    fputc('\n', stderr);
}

static void
tell_end(const struct flow *f)
{
    double seconds = (double)(rt_now_ns() - f->began_ns) / 1e9;
    char bytes[NUM_SIZE_TEXT];

    fflush(stdout);
    if (f->s->output == OUTPUT_JSON)
        tell_json_end(f, seconds);
    if (rt_cancelled())
        fprintf(stderr, "forebay: interrupted: %s %" PRIu64 " of %" PRIu64 "%s, %s; %s\n",
                f->did, f->done, f->found, f->found_all ? "" : " found so far",
                num_size_text(f->progress.bytes, bytes),
                f->again != NULL ? f->again : "repeat the command to start again");
    else if (!f->s->within &&
             (f->failed > TOLD_MAX ||
              (!f->s->quiet && MAX(f->found, f->failed) + f->unchanged > 1)))
        tell_sum(f, seconds);
    if (f->failed > 0 && !rt_cancelled() && !cli_errors_are_json())
        advice_print(f->rc, f->first.text, f->s);
}

/* ---- doing ---- */

/* Would nothing else succeed either? */
static bool
is_hopeless(const struct flow *f, enum err rc, const struct item *it)
{
    bool remote = it->from_bucket != NULL || it->to_bucket != NULL;

    return rc == ERR_CANCELLED || rc == ERR_CLOSED || rc == ERR_NO_BUCKET ||
           rc == ERR_NO_SPACE || rc == ERR_QUOTA ||
           (rc == ERR_DENIED && remote && f->done == 0 && it->from_bucket != NULL);
}

static void
end_early(struct flow *f)
{
    f->over = true;
    rt_cond_broadcast(&f->more);
    rt_cond_broadcast(&f->room);
}

static void
do_one(struct flow *f, struct item *it)
{
    struct errbuf eb = {{0}};
    enum err rc = f->act(f, it, f->arg, &eb);
    char *what;

    if (rc == ERR_OK) {
        f->done++;
        progress_one(&f->progress);
        tell_done(f, it);
        return;
    }
    if (rc == ERR_NOT_MODIFIED) {
        f->unchanged++;
        f->found--;
        f->progress.total--;
        f->progress.total_bytes -= MIN(it->size, f->progress.total_bytes);
        return;
    }
    if (rc == ERR_CANCELLED && (rt_cancelled() || f->over))
        return;
    what = place_text(it->from_bucket, it->from);
    flow_fail(f, what, rc, &eb);
    free(what);
    if (is_hopeless(f, rc, it))
        end_early(f);
}

static void
flow_work(void *arg)
{
    struct flow *f = arg;

    while (!rt_cancelled() && !f->over) {
        struct item *it;

        if (f->count == 0 && f->found_all)
            return;
        if (f->count == 0) {
            enum err rc;

            f->idle++;
            rc = rt_cond_wait(&f->more, DEADLINE_NEVER);
            f->idle--;
            if (rc != ERR_OK)
                return;
            continue;
        }
        it = f->queue[f->head];
        f->head = (f->head + 1) % FLOW_QUEUE;
        f->count--;
        rt_cond_signal(&f->room);
        do_one(f, it);
        item_free(f, it);
    }
}

static void
flow_tick(void *arg)
{
    struct flow *f = arg;

    while (rt_sleep_ms(100) == ERR_OK)
        progress_tick(&f->progress);
}

static void
flow_begin(struct flow *f)
{
    unsigned most = f->parallel > 0 ? f->parallel : PARALLEL;

    f->began_ns = rt_now_ns();
    f->gate = (struct gate){.most = most, .limit = MIN(most, FIRST_LIMIT)};
    rt_cond_init(&f->gate.turn);
    rt_cond_init(&f->more);
    rt_cond_init(&f->room);
    progress_begin(&f->progress, f->did, f->s->quiet || f->s->within, 0, 0);
    f->progress.open_end = true;
}

enum exit_code
flow_run(struct flow *f)
{
    struct errbuf eb = {{0}};
    struct rt_group ticker;
    enum exit_code code;
    enum err rc = ERR_OK;

    flow_begin(f);
    rt_group_begin(&f->group);
    rt_group_begin(&ticker);
    /* One worker at the least; more come with the work. */
    if (rt_group_start(&f->group, flow_work, f) != ERR_OK ||
        (!f->progress.quiet && rt_group_start(&ticker, flow_tick, f) != ERR_OK))
        rc = err_set(&eb, ERR_BUSY, "no fiber is left");
    f->workers = 1;
    if (rc == ERR_OK)
        rc = f->find(f, f->arg, &eb);
    f->found_all = rc == ERR_OK;
    f->progress.open_end = false;
    if (rc != ERR_OK && rc != ERR_CANCELLED)
        end_early(f);
    rt_cond_broadcast(&f->more);
    rt_group_join(&f->group);
    rt_group_cancel(&ticker);
    rt_group_join(&ticker);
    progress_end(&f->progress);
    for (; f->count > 0; f->count--, f->head = (f->head + 1) % FLOW_QUEUE)
        item_free(f, f->queue[f->head]);
    if (rc != ERR_OK && rc != ERR_CANCELLED) {
        f->s->eb = eb;
        if (f->done + f->failed > 0)
            tell_end(f);
        return rc == ERR_BAD_REQUEST ? cli_usage(&eb, f->s->args->verb)
                                     : session_fail(f->s, rc);
    }
    tell_end(f);
    if (rt_cancelled())
        return EXIT_INTERRUPTED;
    if (f->failed == 0) /* of a listing that was not whole: done in part */
        return f->s->stale ? EXIT_DIFFERS : EXIT_OK_;
    code = cli_exit_of(f->rc);
    return f->done + f->unchanged == 0 &&
                   (f->failed == 1 || code == EXIT_UNAVAILABLE || code == EXIT_DENIED)
               ? code
               : EXIT_DIFFERS;
}
