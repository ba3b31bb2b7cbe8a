/* segment_list: the segments in a folder, by file name. Owner loop; may switch. */
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
/* Adds the segments of a folder, in directory order. Other files are left alone; `on_other` (may
 * be NULL) gets their names. */
enum err segment_list_read(struct segment_list *l, struct rt_dir *dir,
                           void (*on_other)(const char *name, void *arg), void *arg,
                           struct errbuf *eb) MUST_CHECK;
void segment_list_fini(struct segment_list *l);
