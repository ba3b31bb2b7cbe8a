/* train_read: a piece of a file comes from the server, into memory that goes round. */
#include "base/mem.h"
#include "bench/train.h"
#include "rt/loop.h"

/* Samples go round a piece of memory larger than caches unless less is asked for, one a loop: they have to arrive, not to stay. */
static char *
next_room(struct train *t)
{
    struct train_memory *m = &t->memory[rt_loop_index()];
    char *out = m->at + m->next;

    m->next = (m->next + TRAIN_READ) % t->memory_bytes;
    return out;
}

enum err
train_read(void *arg, const struct train_piece *p, uint64_t *bytes, struct errbuf *eb)
{
    struct train *t = arg;
    struct arena *a = arena_new(KIB(8), MIB(1));
    struct s3_get g = {.bucket = t->set.bucket,
                       .key = span_of(t->set.files[p->file].key),
                       .range = !p->whole,
                       .first = p->offset,
                       .last = p->offset + p->bytes - 1};
    struct s3_object_info info;
    struct s3_call *call = NULL;
    struct s3_failure f;
    size_t n = 1;
    enum err rc = s3_get_begin(t->s->s3, &g, a, &info, &call, &f, eb);

    *bytes = 0;
    while (rc == ERR_OK && n > 0) {
        rc = s3_read(call, next_room(t), TRAIN_READ, &n, eb);
        *bytes += rc == ERR_OK ? n : 0;
    }
    if (rc == ERR_OK && *bytes != p->bytes)
        rc = err_set(eb, ERR_INCOMPLETE, "%llu bytes of \"%s\" came, %llu were wanted",
                     (unsigned long long)*bytes, t->set.files[p->file].key,
                     (unsigned long long)p->bytes);
    s3_end(&call);
    arena_free(&a);
    return rc;
}
