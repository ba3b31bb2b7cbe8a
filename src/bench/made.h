/* made: objects that a benchmark makes below a prefix of its own, and takes away again. Fibers of one loop. */
#pragma once
#include "cli/session.h"

struct made {
    struct session *s;
    struct span bucket; /* the place's */
    char *prefix;       /* owned: "PREFIX/forebay-bench-XXXXXXXX/": unique names */
    char *body;     /* owned: random bytes, the same for all but for the first eight */
    uint64_t count; /* numbers below it may exist, once `any` does */
    bool any;
};
/* `seed`: of the bytes; 0: it is drawn. Returns it. */
uint64_t made_init(struct made *m, struct session *s, const struct place *p,
                   uint64_t seed);
void made_fini(struct made *m);
/* The key of object `number`, in the arena. */
struct span made_key(const struct made *m, uint64_t number, struct arena *a);
enum err made_put(struct made *m, uint64_t number, uint64_t size,
                  struct errbuf *eb) MUST_CHECK;
enum err made_delete(struct made *m, uint64_t number, struct errbuf *eb) MUST_CHECK;

typedef uint64_t made_size(const void *arg, uint64_t number);
/* Objects 0 to count - 1, many at a time. */
enum err made_fill(struct made *m, uint64_t count, made_size *size, const void *arg,
                   struct errbuf *eb) MUST_CHECK;
/* All there may be, also when the fiber is cancelled. */
enum err made_remove(struct made *m, struct errbuf *eb) MUST_CHECK;
