#include "cli/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/local.h"
#include "cli/verify.h"

#define PIECE (256u << 10)

struct side {
    struct walk *walk; /* NULL: nothing there */
    struct place place;
    const struct found *now;
    bool wanted; /* the next one is to be asked for */
};
struct pairs {
    struct side at[2];
    struct session *s;
    struct session right; /* as the verb's, at the server of its target */
};

static enum err
open_side(struct session *s, struct select *sel, const char *text, bool may_miss,
          struct side *side, struct errbuf *eb)
{
    enum err rc = place_parse(text, &side->place, eb);

    side->wanted = true;
    if (rc == ERR_OK && side->place.standard)
        return err_set(eb, ERR_BAD_REQUEST, "\"-\" is no folder");
    if (rc == ERR_OK && !side->place.remote && may_miss && !local_exists(text)) {
        side->wanted = false;
        return ERR_OK;
    }
    if (rc == ERR_OK && !side->place.remote && !local_is_folder(text))
        return err_set(eb, local_exists(text) ? ERR_BAD_REQUEST : ERR_NOT_FOUND,
                       "\"%s\" is no folder", text);
    return rc == ERR_OK ? walk_open(s, &side->place, &sel->walk, &side->walk, eb) : rc;
}

enum err
pairs_open(struct select *sel, const char *left, const char *right, struct pairs **out,
           struct errbuf *eb)
{
    enum err rc;

    *out = xcalloc(1, sizeof **out);
    (*out)->s = sel->s;
    (*out)->right = *sel->s;
    if (sel->s->to != NULL)
        (*out)->right.s3 = sel->s->to;
    rc = open_side(sel->s, sel, left, false, &(*out)->at[0], eb);
    if (rc == ERR_OK)
        rc = open_side(&(*out)->right, sel, right, true, &(*out)->at[1], eb);
    if (rc != ERR_OK)
        pairs_close(out);
    return rc;
}

static bool
is_marker(const struct found *e)
{
    return e->name.len == 0 || (e->name.at[e->name.len - 1] == '/' && e->size == 0);
}

enum err
pairs_next(struct pairs *p, struct pair *out, struct errbuf *eb)
{
    struct side *l = &p->at[0], *r = &p->at[1];
    int order;

    for (int i = 0; i < 2; i++)
        while (p->at[i].wanted) {
            enum err rc = walk_next(p->at[i].walk, &p->at[i].now, eb);

            if (rc != ERR_OK)
                return rc;
            p->at[i].wanted = p->at[i].now != NULL && is_marker(p->at[i].now);
        }
    p->s->stale |= p->right.stale;
    *out = (struct pair){l->now, r->now};
    if (l->now == NULL && r->now == NULL)
        return ERR_OK;
    order = l->now == NULL   ? 1
            : r->now == NULL ? -1
                             : span_cmp(l->now->name, r->now->name);
    if (order < 0)
        out->right = NULL;
    if (order > 0)
        out->left = NULL;
    l->wanted = order <= 0;
    r->wanted = order >= 0;
    return ERR_OK;
}

bool
pairs_left_missing(const struct pairs *p)
{
    const struct side *l = &p->at[0];

    return l->place.remote && l->place.key.len > 0 && !walk_any(l->walk);
}

void
pairs_close(struct pairs **pp)
{
    struct pairs *p = *pp;

    *pp = NULL;
    if (p == NULL)
        return;
    walk_close(&p->at[0].walk);
    walk_close(&p->at[1].walk);
    free(p);
}

const struct place *
pairs_place(const struct pairs *p, bool right)
{
    return &p->at[right].place;
}

/* The ETag of an upload in parts and that of a copy of it in one piece tell nothing of each other: then a copy that is not older
 * counts, unless checksums were asked for. */
static enum pairs_same
compare_etags(const struct found *l, const struct found *r, enum pairs_by by)
{
    unsigned char md5[16];
    unsigned of_l = 0, of_r = 0;

    if (span_eq(l->etag, r->etag))
        return PAIRS_SAME;
    if (by == PAIRS_USUAL && etag_parse(l->etag, md5, &of_l) &&
        etag_parse(r->etag, md5, &of_r) && of_l != of_r && r->mtime_ms >= l->mtime_ms)
        return PAIRS_SAME;
    return PAIRS_DIFFER;
}

/* A file that was written after the object was is perhaps newer; one that came down has the object's time, in whole seconds. */
enum pairs_same
pairs_compare(const struct pairs *p, const struct pair *pair, enum pairs_by by)
{
    const struct found *l = pair->left, *r = pair->right;
    bool up = !p->at[0].place.remote && p->at[1].place.remote;
    bool fits =
        up ? r->mtime_ms >= l->mtime_ms : l->mtime_ms / 1000 == r->mtime_ms / 1000;

    if (l->problem != NULL || r->problem != NULL || l->size != r->size)
        return PAIRS_DIFFER;
    if (by == PAIRS_SIZE)
        return PAIRS_SAME;
    if (p->at[0].place.remote && p->at[1].place.remote)
        return compare_etags(l, r, by);
    return by == PAIRS_USUAL && fits ? PAIRS_SAME : PAIRS_ASK;
}

static uint64_t
learn_part(struct session *s, struct span bucket, struct span key, unsigned parts,
           uint64_t size)
{
    static const uint64_t usual[] = {16u << 20, 8u << 20, 5u << 20, 64u << 20};
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_object_info info;
    struct s3_failure f;
    struct errbuf eb = {{0}};
    uint64_t part = 0;

    if (s3_head_part(s->s3, bucket, key, 1, a, &info, &f, &eb) == ERR_OK && info.partial)
        part = info.body_length;
    arena_free(&a);
    for (size_t i = 0; part == 0 && i < ARRAY_LEN(usual); i++)
        if ((size + usual[i] - 1) / usual[i] == parts)
            part = usual[i];
    return part;
}

enum err
pairs_file_is(struct session *s, const char *path, struct span bucket, struct span key,
              struct span etag, bool *same, struct errbuf *eb)
{
    struct s3_object_info info = {.etag = etag};
    unsigned char md5[16];
    struct files_file file;
    struct verify v;
    unsigned parts = 0;
    uint64_t part = 0;
    size_t n = 1;
    char *room;
    enum err rc = files_open(path, &file, eb);

    *same = false;
    if (rc != ERR_OK)
        return rc;
    info.size = file.size;
    if (etag_parse(etag, md5, &parts) && parts > 0)
        part = learn_part(s, bucket, key, parts, file.size);
    verify_init(&v, &info, part);
    room = xmalloc(PIECE);
    for (uint64_t at = 0;
         v.by != VERIFY_LENGTH && rc == ERR_OK && at < file.size && n > 0; at += n) {
        rc = files_read(&file, at, room, PIECE, &n, eb);
        if (rc == ERR_OK)
            verify_add(&v, room, n);
    }
    *same = rc == ERR_OK && v.by != VERIFY_LENGTH && verify_end(&v);
    verify_fini(&v);
    free(room);
    files_close(&file);
    return rc;
}
