/* archive: objects of a bucket become members of one shard, in the order of the list.
 *
 * Arguments: those of names.h, {"to": BUCKET, "shard": KEY, "append": 1, "base_names": 1, "bucket_names": 1, "skip_missing": 1}. A
 * restart begins again: nothing is visible before the whole shard is. Every missing object is counted and kept by its name.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/names.h"
#include "shard/build.h"
#include "wire/json_get.h"

#define PAGE_KEYS     500u
#define ARCHIVE_TRIES 8u /* of the whole, when the shard changes meanwhile */
#define PAGE_ARENA    MIB(4)

struct archive_work {
    struct job *job;
    struct names names;
    const struct map_bucket *to;  /* one reference */
    struct shard_service *shards; /* owned */
    struct shard_build *build;
    char after[NAMES_KEY_MAX + 1];
};

static enum err
archive_job_check(struct job_service *s, const json_t *args, struct span list,
                  struct buf *what, struct errbuf *eb)
{
    static const struct job_arg known[] = {
        {"to", false, 0},        {"shard", false, 0},       {"append", true, 1},
        {"base_names", true, 1}, {"bucket_names", true, 1}, {"skip_missing", true, 1},
        {NULL, false, 0}};
    const char *to = json_get_text(args, "to", ""),
               *shard = json_get_text(args, "shard", "");
    enum err rc = names_check_any(s, "archive", known, args, list, what, eb);

    if (rc != ERR_OK)
        return rc;
    if (map_bucket_find(map_now(s->options.map), span_of(to)) == NULL)
        return err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%s\"", to);
    if (strlen(shard) > OBJECT_KEY_MAX ||
        shard_format_of_name(span_of(shard)) == SHARD_NONE)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "\"%.100s\" is no name of a shard: .tar, .tgz, .tar.gz, .tar.lz4 or "
            ".zip at its end, at most %u bytes",
            shard, (unsigned)OBJECT_KEY_MAX);
    buf_printf(what, " into s3://%s/%s", to, shard);
    return ERR_OK;
}

/* The name of a member: of its object, perhaps with the bucket before it, or without folders. */
static const char *
archive_member_name(struct archive_work *w, const char *key, char *out, size_t room)
{
    const char *base = strrchr(key, '/');

    if (json_get_u64(w->job->args, "base_names") > 0 && base != NULL)
        key = base + 1;
    if (json_get_u64(w->job->args, "bucket_names") == 0)
        return key;
    snprintf(out, room, "%s/%s", w->names.bucket->name, key);
    return out;
}

static enum err
archive_take(struct archive_work *w, const char *key, struct errbuf *eb)
{
    struct job_counts *c = &w->job->counts;
    char name[NAMES_KEY_MAX + 80];
    uint64_t bytes = 0;
    enum err rc;

    assert(w->build != NULL);
    rc = shard_build_object(w->build, w->names.bucket, span_of(key),
                            span_of(archive_member_name(w, key, name, sizeof name)),
                            &bytes, eb);

    if (rt_cancelled())
        return err_set(eb, ERR_CANCELLED, "the job was cancelled");
    w->job->changed = true;
    if (rc == ERR_OK) {
        c->objects++;
        c->bytes += bytes;
        return ERR_OK;
    }
    if (rc != ERR_NOT_FOUND && rc != ERR_BAD_REQUEST)
        return rc;
    if (rc == ERR_NOT_FOUND && json_get_u64(w->job->args, "skip_missing") > 0)
        c->present++;
    else
        job_add_error(w->job, span_of(key), eb);
    return ERR_OK;
}

static enum err
archive_listed(struct archive_work *w, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(64), PAGE_ARENA);
    struct object_page page = {.truncated = true};
    const char *shard = json_get_text(w->job->args, "shard", "");
    enum err rc = ERR_OK;

    w->after[0] = '\0';
    while (rc == ERR_OK && page.truncated) {
        struct object_list_options o = {.prefix = span_of(w->names.prefix),
                                        .after = span_of(w->after),
                                        .max = PAGE_KEYS};

        arena_reset(a);
        rc = object_list(w->job->s->options.object, w->names.bucket, &o, a, &page, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < page.count; i++) {
            snprintf(w->after, sizeof w->after, "%.*s", SPAN_ARG(page.entries[i].name));
            if (w->names.bucket->id != w->to->id || strcmp(w->after, shard) != 0)
                rc = archive_take(w, w->after, eb);
        }
    }
    arena_free(&a);
    return rc;
}

static enum err
archive_named(struct archive_work *w, struct errbuf *eb)
{
    char key[NAMES_KEY_MAX + 1];
    enum err rc = ERR_OK;

    while (rc == ERR_OK) {
        rc = names_next(&w->names, key, eb);
        if (rc != ERR_OK || w->names.ended)
            break;
        rc = archive_take(w, key, eb);
    }
    return rc;
}

/* The whole, once. ERR_PRECONDITION: the shard was changed meanwhile. */
static enum err
archive_attempt(struct archive_work *w, struct errbuf *eb)
{
    const char *shard = json_get_text(w->job->args, "shard", "");
    struct shard_ask ask = {.bucket = w->to, .key = span_of(shard)};
    bool append = json_get_u64(w->job->args, "append") > 0;
    enum err rc = names_open(&w->names, w->job, eb);

    assert(w->build == NULL);
    assert(w->to != NULL);
    w->job->counts.objects = w->job->counts.bytes = w->job->counts.present = 0;
    if (rc == ERR_OK)
        rc = shard_build_begin(w->shards, &ask,
                               append ? SHARD_BUILD_EITHER : SHARD_BUILD_NEW, &w->build,
                               eb);
    if (rc == ERR_OK)
        rc = w->names.prefix != NULL ? archive_listed(w, eb) : archive_named(w, eb);
    if (rc == ERR_OK)
        rc = shard_build_commit(&w->build, eb);
    shard_build_abort(&w->build);
    names_close(&w->names);
    return rc;
}

static enum err
archive_job_run(struct job *j, struct errbuf *eb)
{
    struct archive_work w = {.job = j};
    const char *name = json_get_text(j->args, "to", "");
    const struct map_bucket *to =
        map_bucket_find(map_now(j->s->options.map), span_of(name));
    enum err rc = ERR_PRECONDITION;

    if (to == NULL)
        return err_set(eb, ERR_NO_BUCKET, "there is no bucket \"%s\" any more", name);
    w.to = map_bucket_ref(to);
    w.shards = shard_start(j->s->options.object, 0);
    for (unsigned i = 0; i < ARCHIVE_TRIES && rc == ERR_PRECONDITION; i++)
        rc = archive_attempt(&w, eb);
    assert(w.build == NULL);
    shard_stop(&w.shards);
    map_bucket_drop(&w.to);
    return rc;
}

const struct job_kind job_archive = {.name = "archive",
                                     .takes_list = true,
                                     .check = archive_job_check,
                                     .run = archive_job_run};
