/* backend: what a store behind meta.h implements. Only this room includes it.
 *
 * meta.c checks limits and arguments before it calls a backend, and delivers watches: a backend calls meta_changed() for
 * each key that it sees change, its own changes included, when they are on stable storage.
 */
#pragma once
#include <stdatomic.h>

#include "meta/follow.h"
#include "meta/meta.h"
#include "rt/loop.h"

struct meta_ops {
    const char *name;
    /* One page; limits are set, the range is checked. */
    enum err (*page)(struct meta *m, const struct meta_range *r, struct arena *a,
                     struct meta_page *out, struct errbuf *eb);
    /* One transaction; calls meta_changed() for each change on ERR_OK. */
    enum err (*apply)(struct meta *m, const struct meta_txn *t, struct arena *a,
                      struct meta_result *out, struct errbuf *eb);
    /* Frees the backend, `m` with it. */
    void (*close)(struct meta *m);
};

struct meta_watch {
    struct rt_msg msg; /* in flight while `posted` */
    char *prefix;      /* owned; NULL: this watch is free */
    size_t prefix_len;
    void (*on_change)(void *arg);
    void *arg;
    _Atomic bool active, posted;
};

/* The head of every backend's struct. */
struct meta {
    const struct meta_ops *ops;
    void (*after)(void *arg); /* NULL: none */
    void *after_arg;
    struct meta_adoption adoption; /* zeros: this node alone */
    struct meta_watch watches[META_WATCHES_MAX];
};

/* A key has changed: wakes its watches. Any loop. Does not wait. */
void meta_changed(struct meta *m, struct span key);
