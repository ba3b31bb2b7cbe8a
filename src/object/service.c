#include <stdlib.h>

#include "base/mem.h"
#include "object/internal.h"
#include "rt/loop.h"

enum err
object_start(const struct object_options *o, struct object_service **out,
             struct errbuf *eb)
{
    struct object_service *s = xcalloc(1, sizeof *s);
    enum err rc;

    s->options = *o;
    s->hashing = xcalloc(rt_loop_count(), sizeof(struct md5_job *));
    rc = key_tables_start(s);
    if (rc != ERR_OK) {
        object_stop(&s);
        return err_set(eb, rc, "starting the object service");
    }
    *out = s;
    return ERR_OK;
}

void
object_stop(struct object_service **sp)
{
    struct object_service *s = *sp;

    *sp = NULL;
    if (s == NULL)
        return;
    key_tables_stop(s);
    free(s->hashing);
    free(s);
}

struct disks_key
object_disk_key(const struct map_bucket *b, struct span key)
{
    return (struct disks_key){
        .at = {.bucket = b->id, .birth_name = span_of(b->birth_name), .key = key},
        .copies = b->cached ? 1 : b->copies,
        .min_copies = b->min_copies};
}

enum err
object_bucket_may_go(struct object_service *s, const struct map_bucket *b,
                     struct errbuf *eb)
{
    bool empty = false;
    enum err rc;

    if (b->cached)
        return ERR_OK;
    rc = disks_bucket_empty(s->options.disks, b->id, b->copies, &empty, eb);
    if (rc == ERR_OK && !empty)
        rc = err_set(eb, ERR_NOT_EMPTY, "The bucket you tried to delete is not empty");
    return rc;
}
