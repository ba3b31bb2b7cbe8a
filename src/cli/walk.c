#include "cli/walk.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rt/fiber.h"

#define PAGE_BYTES MIB(64)

struct walk {
    struct session *s;
    struct walk_options o;
    struct place place;
    struct files_walk *files; /* of a local place */
    struct arena *arena;      /* of this page */
    struct arena *former;     /* the token lies here */
    struct arena *item;       /* of `now` */
    struct s3_list list;
    struct s3_list_page page;
    uint32_t next;
    size_t skip;         /* bytes of a key that are not of its name */
    struct span pattern; /* or empty */
    bool one, begun, over, any;
    struct found now;
};

static struct span
prefix_of(struct walk *w)
{
    struct span key = w->place.key;
    const char *slash;

    if (w->pattern.len > 0) {
        key.len = glob_literal(w->pattern);
        slash = key.len > 0 ? memrchr(key.at, '/', key.len) : NULL;
        w->skip = slash != NULL ? (size_t)(slash - key.at) + 1 : 0;
        return key;
    }
    if (w->o.how == WALK_BELOW && key.len > 0 && key.at[key.len - 1] != '/')
        key = span_of(arena_printf(w->item, "%.*s/", SPAN_ARG(key)));
    slash = key.len > 0 ? memrchr(key.at, '/', key.len) : NULL;
    w->skip = slash != NULL ? (size_t)(slash - key.at) + 1 : 0;
    return key;
}

enum err
walk_open(struct session *s, const struct place *p, const struct walk_options *o,
          struct walk **out, struct errbuf *eb)
{
    struct walk *w = xcalloc(1, sizeof *w);
    enum err rc = ERR_OK;

    *w = (struct walk){.s = s, .o = *o, .place = *p};
    w->arena = arena_new(KIB(256), PAGE_BYTES);
    w->former = arena_new(KIB(256), PAGE_BYTES);
    w->item = arena_new(KIB(16), MIB(1));
    if (!p->remote) {
        rc = files_walk_open(p->text, !o->no_follow, &w->files, eb);
    } else {
        if (!o->literal && glob_is(p->key))
            w->pattern = p->key;
        w->one = o->how == WALK_ONE && w->pattern.len == 0;
        w->list = (struct s3_list){.bucket = p->bucket};
        /* The prefix outlives the arena of items. */
        if (!w->one) {
            struct span prefix = prefix_of(w);

            w->list.prefix = (struct span){xmemdup0(prefix.at, prefix.len), prefix.len};
        }
        if (o->how == WALK_LEVEL && w->pattern.len == 0)
            w->list.delimiter = SPAN("/");
    }
    *out = w;
    if (rc != ERR_OK)
        walk_close(out);
    return rc;
}

static enum err
next_page(struct walk *w, struct errbuf *eb)
{
    struct arena *swap = w->arena;
    struct s3_failure f;
    enum err rc;

    w->arena = w->former;
    w->former = swap;
    arena_reset(w->arena);
    w->next = 0;
    rc = s3_list_objects(w->s->s3, &w->list, w->arena, &w->page, &f, eb);
    /* A listing is read again as often as a transfer is tried. */
    for (unsigned tries = 1; rc != ERR_OK && f.retry && tries < 6; tries++) {
        if (rt_sleep_ms(MAX(f.retry_after_ms, 50ull << tries)) != ERR_OK)
            return err_set(eb, ERR_CANCELLED, "interrupted");
        arena_reset(w->arena);
        rc = s3_list_objects(w->s->s3, &w->list, w->arena, &w->page, &f, eb);
    }
    if (rc != ERR_OK)
        w->page = (struct s3_list_page){0};
    else
        session_listed(w->s, w->place.bucket, &w->page);
    w->list.token = w->page.next_token;
    return rc;
}

static bool
take_listed(struct walk *w, const struct s3xml_list_entry *e)
{
    struct span name = span_from(e->key, w->skip);

    if (w->pattern.len > 0 && !glob_match(w->pattern, e->key))
        return false;
    w->any = true;
    if (!e->is_prefix && !filter_takes(&w->o.filter, name))
        return false;
    arena_reset(w->item);
    w->now = (struct found){.bucket = w->place.bucket,
                            .path = arena_strdup(w->item, e->key),
                            .name = name,
                            .size = e->size,
                            .mtime_ms = e->mtime_ms,
                            .etag = e->etag,
                            .is_prefix = e->is_prefix};
    if (memchr(e->key.at, '\0', e->key.len) != NULL)
        w->now.problem = "a key with a NUL, which no program accepts";
    return true;
}

static enum err
next_remote(struct walk *w, const struct found **out, struct errbuf *eb)
{
    while (!w->over) {
        if (w->next < w->page.count) {
            if (take_listed(w, &w->page.entries[w->next++])) {
                *out = &w->now;
                return ERR_OK;
            }
            continue;
        }
        if (w->begun && !w->page.truncated) {
            w->over = true;
            break;
        }
        w->begun = true;
        enum err rc = next_page(w, eb);

        if (rc != ERR_OK)
            return rc;
    }
    return ERR_OK;
}

static enum err
next_one(struct walk *w, const struct found **out, struct errbuf *eb)
{
    struct span key = w->place.key;
    const char *slash = key.len > 0 ? memrchr(key.at, '/', key.len) : NULL;
    struct s3_object_info info = {0};
    struct s3_failure f;
    enum err rc = ERR_OK;

    if (w->over)
        return ERR_OK;
    w->over = true;
    if (w->o.look)
        rc = s3_head(w->s->s3, w->place.bucket, key, w->arena, &info, &f, eb);
    if (rc != ERR_OK)
        return rc;
    w->now = (struct found){
        .bucket = w->place.bucket,
        .path = arena_strdup(w->item, key),
        .name = slash != NULL ? span_from(key, (size_t)(slash - key.at) + 1) : key,
        .size = info.size,
        .mtime_ms = info.mtime_ms,
        .etag = info.etag};
    *out = &w->now;
    return ERR_OK;
}

static enum err
next_file(struct walk *w, const struct found **out, struct errbuf *eb)
{
    const struct files_entry *e;
    enum err rc;

    while ((rc = files_walk_next(w->files, &e, eb)) == ERR_OK && e != NULL) {
        if (!filter_takes(&w->o.filter, span_of(e->name)))
            continue;
        w->now = (struct found){.path = e->path,
                                .name = span_of(e->name),
                                .size = e->size,
                                .mtime_ms = e->mtime_ms,
                                .problem = e->problem,
                                .odd = e->odd};
        *out = &w->now;
        break;
    }
    return rc;
}

enum err
walk_next(struct walk *w, const struct found **out, struct errbuf *eb)
{
    *out = NULL;
    if (w->files != NULL)
        return next_file(w, out, eb);
    return w->one ? next_one(w, out, eb) : next_remote(w, out, eb);
}

bool
walk_any(const struct walk *w)
{
    return w->files != NULL || w->one || w->any;
}

void
walk_close(struct walk **wp)
{
    struct walk *w = *wp;

    *wp = NULL;
    if (w == NULL)
        return;
    files_walk_close(&w->files);
    free((void *)(uintptr_t)w->list.prefix.at);
    arena_free(&w->arena);
    arena_free(&w->former);
    arena_free(&w->item);
    free(w);
}
