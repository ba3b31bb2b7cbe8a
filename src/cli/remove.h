/* remove: deletes objects, a thousand in a request; what rm, rb --force and sync --delete share. Fibers of one loop. */
#pragma once
#include "cli/attached.h"
#include "cli/flow.h"

struct remover {
    struct flow *f;
    struct s3_client *s3; /* NULL: the session's */
    bool dry, tell;       /* a line for each */
    bool singly;        /* the server does not know DeleteObjects; found out by itself */
    struct batch *open; /* being filled */
    struct attached attached; /* remover_fini() */
};
/* To be called by a flow's finder, whose act and drop are remover_act and remover_drop and whose arg is the remover. */
enum err remover_add(struct remover *r, struct span bucket, struct span key,
                     uint64_t size, struct errbuf *eb) MUST_CHECK;
enum err remover_flush(struct remover *r, struct errbuf *eb) MUST_CHECK;
flow_do remover_act;
void remover_drop(void *own);
void remover_fini(struct remover *r);
