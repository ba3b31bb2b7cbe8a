/* lanes: MD5 of bodies that go up at the same time, pieces of one turn of the loop together (base/md5.h): one large upload is
 * not bound to what a core can hash one after the other. Fibers of one loop. */
#pragma once
#include "base/md5.h"

struct lanes {
    struct md5_job *jobs; /* on the stacks of fibers that are in lanes_add() */
    unsigned waiting, streams;
};
/* One more, or one less, body: lanes_add() waits a little for the others. */
void lanes_enter(struct lanes *l);
void lanes_leave(struct lanes *l);
/* The bytes are hashed when it comes back. Switches. */
void lanes_add(struct lanes *l, struct md5 *m, const void *data, size_t len);
