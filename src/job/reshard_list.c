/* reshard_list: which shards are read, in which versions; see reshard.h. The file "ID-inputs" has a record for each:
 * be16 length of key, key, be64 size, be64 time, u8 null version, be64 epoch, be64 counter, ETag. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "base/mem.h"
#include "job/reshard.h"
#include "wire/json_get.h"

#define LIST_PAGE_KEYS 500u
#define LIST_ARENA     MIB(4)

static enum err
inputs_add(struct reshard *w, struct span key, const struct shard_version *v,
           struct errbuf *eb)
{
    struct reshard_input *i;

    if (w->state.inputs == RESHARD_INPUTS_MAX)
        return err_set(eb, ERR_TOO_LARGE, "more than %u shards; reshard parts of them",
                       RESHARD_INPUTS_MAX);
    if (w->state.inputs == w->input_room) {
        w->input_room = MAX(64u, w->input_room * 2);
        w->inputs = xrealloc(w->inputs, w->input_room * sizeof *w->inputs);
    }
    assert(key.len > 0 && key.len <= OBJECT_KEY_MAX);
    assert(w->state.inputs < w->input_room);
    i = &w->inputs[w->state.inputs++];
    *i = (struct reshard_input){.key = xmemdup0(key.at, key.len), .version = *v};
    i->copied = shard_format_of_name(key) != SHARD_TAR;
    return ERR_OK;
}

/* ---- the file ---- */

static void
put_input(const struct reshard_input *i, struct buf *out)
{
    const struct shard_version *v = &i->version;

    buf_be(out, strlen(i->key), 2);
    buf_puts(out, i->key);
    buf_be(out, v->size, 8);
    buf_be(out, (uint64_t)v->mtime_s, 8);
    buf_be(out, v->version.null, 1);
    buf_be(out, v->version.born.epoch, 8);
    buf_be(out, v->version.born.counter, 8);
    buf_put(out, v->etag, strnlen(v->etag, sizeof v->etag));
}

static enum err
inputs_save(struct reshard *w, struct errbuf *eb)
{
    struct spill_writer *f = NULL;
    char name[RESHARD_FILE];
    struct buf record;
    enum err rc = spill_create(w->dir, reshard_file(w, "inputs", 0, name), &f, eb);

    buf_init(&record, KIB(8));
    for (uint32_t i = 0; rc == ERR_OK && i < w->state.inputs; i++) {
        buf_clear(&record);
        put_input(&w->inputs[i], &record);
        assert(!record.full);
        rc = spill_put(f, buf_span(&record), eb);
    }
    if (rc == ERR_OK)
        rc = spill_end(&f, eb);
    spill_abort(&f);
    buf_fini(&record);
    return rc;
}

static enum err
take_input(struct reshard *w, struct span record, struct errbuf *eb)
{
    struct cursor c = cursor_of(record.at, record.len);
    struct span key = take_span(&c, (size_t)take_be(&c, 2)), etag;
    struct shard_version v = {.size = take_be(&c, 8)};

    v.mtime_s = (int64_t)take_be(&c, 8);
    v.version.null = take_be(&c, 1) != 0;
    v.version.born.epoch = take_be(&c, 8);
    v.version.born.counter = take_be(&c, 8);
    etag = take_span(&c, cursor_left(&c));
    if (c.bad || key.len == 0 || key.len > OBJECT_KEY_MAX || etag.len >= sizeof v.etag)
        return err_set(eb, ERR_CORRUPT, "the list of shards is damaged");
    memcpy(v.etag, etag.at, etag.len);
    return inputs_add(w, key, &v, eb);
}

enum err
reshard_load_inputs(struct reshard *w, struct errbuf *eb)
{
    uint64_t want = w->state.inputs;
    struct spill_reader *f = NULL;
    char name[RESHARD_FILE];
    struct span record;
    bool end = false;
    enum err rc = spill_open(w->dir, reshard_file(w, "inputs", 0, name), &f, eb);

    assert(w->inputs == NULL);
    w->state.inputs = 0;
    while (rc == ERR_OK) {
        rc = spill_next(f, &record, &end, eb);
        if (rc != ERR_OK || end)
            break;
        rc = take_input(w, record, eb);
    }
    spill_close(&f);
    if (rc == ERR_OK && w->state.inputs != want)
        rc = err_set(eb, ERR_CORRUPT, "%llu shards are listed, %llu were",
                     (unsigned long long)w->state.inputs, (unsigned long long)want);
    return rc;
}

/* ---- the phase ---- */

static enum err
list_input(struct reshard *w, const char *key, struct arena *a, struct errbuf *eb)
{
    struct shard_version v;
    struct object_info info;
    enum err rc;

    if (shard_format_of_name(span_of(key)) == SHARD_NONE)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "\"%.200s\" is no shard by its name: .tar, .tgz, .tar.gz, .tar.lz4 "
            "or .zip at its end",
            key);
    arena_reset(a);
    rc = object_head(w->job->s->options.object, w->from, span_of(key), a, &info, eb);
    if (rc == ERR_NOT_FOUND && w->spec.skip_missing) {
        w->job->counts.present++;
        return ERR_OK;
    }
    if (rc == ERR_NOT_FOUND)
        return err_set(eb, ERR_NOT_FOUND, "shard \"%.200s\" does not exist", key);
    if (rc != ERR_OK)
        return rc;
    shard_version_of(&info, w->from->cached, &v);
    rc = inputs_add(w, span_of(key), &v, eb);
    return rc == ERR_OK ? reshard_turn(w, eb) : rc;
}

/* What begins with the prefix and has the name of a shard. */
static enum err
list_prefix(struct reshard *w, const char *prefix, struct arena *one, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), LIST_ARENA);
    struct object_page page = {.truncated = true};
    char after[NAMES_KEY_MAX + 1] = "";
    enum err rc = ERR_OK;

    while (rc == ERR_OK && page.truncated) {
        struct object_list_options o = {
            .prefix = span_of(prefix), .after = span_of(after), .max = LIST_PAGE_KEYS};

        arena_reset(a);
        rc = object_list(w->job->s->options.object, w->from, &o, a, &page, eb);
        if (rc == ERR_OK && page.stale)
            rc = err_set(eb, ERR_BACKEND,
                         "the remote cannot be reached: not all is listed");
        for (uint32_t i = 0; rc == ERR_OK && i < page.count; i++) {
            snprintf(after, sizeof after, "%.*s", SPAN_ARG(page.entries[i].name));
            if (shard_format_of_name(span_of(after)) != SHARD_NONE)
                rc = list_input(w, after, one, eb);
        }
    }
    arena_free(&a);
    return rc;
}

static enum err
list_inputs(struct reshard *w, struct errbuf *eb)
{
    struct arena *one = arena_new(4096, KIB(256));
    char key[NAMES_KEY_MAX + 1];
    struct names n;
    enum err rc = names_open(&n, w->job, eb);

    if (rc == ERR_OK && n.prefix != NULL)
        rc = list_prefix(w, n.prefix, one, eb);
    while (rc == ERR_OK && n.prefix == NULL) {
        rc = names_next(&n, key, eb);
        if (rc != ERR_OK || n.ended)
            break;
        rc = list_input(w, key, one, eb);
    }
    names_close(&n);
    arena_free(&one);
    return rc;
}

enum err
reshard_list(struct reshard *w, struct errbuf *eb)
{
    enum err rc;

    assert(w->state.phase == RESHARD_LIST);
    assert(w->inputs == NULL);
    w->state = (struct reshard_state){.phase = RESHARD_LIST,
                                      .begun_ms = (uint64_t)job_wall_ms()};
    w->job->counts = (struct job_counts){0};
    rc = spill_remove(w->dir, w->job->id, eb);
    if (rc == ERR_OK)
        rc = list_inputs(w, eb);
    if (rc == ERR_OK && w->state.inputs == 0)
        rc = err_set(eb, ERR_NOT_FOUND, "no shard is there to read");
    if (rc == ERR_OK)
        rc = inputs_save(w, eb);
    if (rc != ERR_OK)
        return rc;
    w->state.phase = RESHARD_EXTRACT;
    reshard_note(w);
    return ERR_OK;
}
