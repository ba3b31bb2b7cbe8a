/* segment_list: which segments lie in a folder, by the names of its files. Owner loop; may switch. */
#pragma once
#include "store/record/format.h"
#include "store/segment/segment.h"

struct segment_list {
    struct segment_named {
        enum segment_kind kind;
        uint32_t id;
    } * at; /* owned */
    uint32_t count, room;
};

void segment_list_add(struct segment_list *l, enum segment_kind kind, uint32_t id);
/* Adds those of a folder, in the order in which it names them. What is no segment is left alone; `on_other` gets its name, or
 * is NULL. */
enum err segment_list_read(struct segment_list *l, struct rt_dir *dir,
                           void (*on_other)(const char *name, void *arg), void *arg,
                           struct errbuf *eb) MUST_CHECK;
void segment_list_fini(struct segment_list *l);
