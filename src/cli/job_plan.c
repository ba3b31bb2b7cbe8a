#include "cli/job_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/here.h"
#include "cli/list_pages.h"
#include "cli/names.h"
#include "wire/json.h"
#include "wire/json_get.h"

struct job_plan {
    struct session *s;
    const struct place *p;
    bool evict;
    struct here *here;
    uint64_t count, bytes, others;
};

static const char *
word(const struct job_plan *w)
{
    return w->evict ? "would evict" : "would fetch";
}

/* `state` as here_state() says it. */
static void
job_plan_take(struct job_plan *w, struct span key, uint64_t size, const char *state)
{
    struct arena *a;

    if (strcmp(state, w->evict ? "cached" : "-") != 0) {
        w->others++;
        return;
    }
    w->count++;
    w->bytes += size;
    if (w->s->quiet || w->s->output == OUTPUT_JSON)
        return;
    a = arena_new(KIB(4), MIB(1));
    printf("%s s3://%.*s/%.*s\n", word(w), SPAN_ARG(w->p->bucket),
           SPAN_ARG(name_shown(key, a)));
    arena_free(&a);
}

static enum err
job_plan_on_entry(void *arg, const struct s3xml_list_entry *e)
{
    struct job_plan *w = arg;
    const char *state = "-";
    enum err rc = here_state(w->here, w->p, e->key, &state, &w->s->eb);

    if (rc == ERR_OK && !w->evict &&
        here_chunks(w->here).here < here_chunks(w->here).count)
        state = "-"; /* the rest is fetched */
    if (rc == ERR_OK)
        job_plan_take(w, e->key, e->size, state);
    return rc;
}

static enum err
job_plan_on_name(void *arg, struct span name, struct errbuf *eb)
{
    struct job_plan *w = arg;
    json_t *doc = NULL;
    const char *state = "-";
    uint64_t size = 0;
    enum err rc = here_ask(w->s, w->p->bucket, name, &doc, eb);

    if (rc == ERR_OK) {
        size = json_get_u64(doc, "size");
        state = json_is_object(json_object_get(doc, "pin")) ||
                        json_is_string(json_object_get(doc, "pin"))
                    ? "pinned"
                    : "cached";
    }
    json_decref(doc);
    if (rc == ERR_OK || rc == ERR_NOT_FOUND)
        job_plan_take(w, name, size, state);
    return rc == ERR_NOT_FOUND ? ERR_OK : rc;
}

static enum err
each_line(struct job_plan *w, struct span names)
{
    enum err rc = ERR_OK;

    while (rc == ERR_OK && names.len > 0) {
        const char *end = memchr(names.at, '\n', names.len);
        size_t len = end != NULL ? (size_t)(end - names.at) : names.len;
        struct span line = {names.at, len};

        if (line.len > 0 && line.at[line.len - 1] == '\r')
            line.len--;
        if (line.len > 0)
            rc = names_expand(line, job_plan_on_name, w, &w->s->eb);
        names = span_from(names, MIN(len + 1, names.len));
    }
    return rc;
}

static void
job_plan_tell(const struct job_plan *w)
{
    char size[NUM_SIZE_TEXT];
    struct buf text;
    struct json j;

    if (w->s->output != OUTPUT_JSON) {
        fflush(stdout);
        fprintf(stderr, "%s %" PRIu64 " objects", word(w), w->count);
        if (w->bytes > 0)
            fprintf(stderr, ", %s", session_size(w->s, w->bytes, size));
        fprintf(stderr, "; %" PRIu64 " stay as they are\n", w->others);
        return;
    }
    buf_init(&text, KIB(4));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_text(&j, "did", word(w));
    json_u64(&j, "objects", w->count);
    json_u64(&j, "bytes", w->bytes);
    json_u64(&j, "others", w->others);
    json_end(&j);
    printf("%.*s\n", SPAN_ARG(buf_span(&text)));
    buf_fini(&text);
}

enum exit_code
job_plan(struct session *s, const struct place *p, bool evict, struct span names)
{
    struct job_plan w = {.s = s, .p = p, .evict = evict, .here = here_new(s)};
    enum err rc = names.len > 0 ? each_line(&w, names)
                                : list_pages(s, p->bucket, p->key, SPAN(""),
                                             job_plan_on_entry, &w, &s->eb);

    here_free(&w.here);
    if (rc != ERR_OK)
        return session_fail(s, rc);
    job_plan_tell(&w);
    return EXIT_OK_;
}
