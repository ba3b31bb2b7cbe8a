#include "store/segment/segment_list.h"

#include "store/record/format.h"
#include "store/segment/segment.h"
#include <stdlib.h>

struct reading {
    struct segment_list *list;
    void (*on_other)(const char *name, void *arg);
    void *arg;
};

void
segment_list_add(struct segment_list *l, enum segment_kind kind, uint32_t id)
{
    if (l->count == l->room) {
        l->room = MAX(64u, 2 * l->room);
        l->at = xrealloc(l->at, l->room * sizeof *l->at);
    }
    l->at[l->count++] = (struct segment_named){.kind = kind, .id = id};
}

static void
segment_list_on_name(const char *name, void *arg)
{
    const struct reading *r = arg;
    enum segment_kind kind;
    uint32_t id;

    if (segment_name_parse(name, &kind, &id))
        segment_list_add(r->list, kind, id);
    else if (r->on_other != NULL)
        r->on_other(name, r->arg);
}

enum err
segment_list_read(struct segment_list *l, struct rt_dir *dir,
                  void (*on_other)(const char *name, void *arg), void *arg,
                  struct errbuf *eb)
{
    struct reading r = {l, on_other, arg};

    return rt_dir_list(dir, segment_list_on_name, &r, eb);
}

void
segment_list_fini(struct segment_list *l)
{
    free(l->at);
    *l = (struct segment_list){0};
}
