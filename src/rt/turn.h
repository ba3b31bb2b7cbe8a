/* turn: one loop's life: messages, timers, fibers, sleep. Inside `rt` only; run.c drives
 * it. */
#pragma once
#include "rt/internal.h"

/* In the loop's own thread; sets loop_self. On error everything is undone. */
enum err loop_open(struct loop *l, const struct rt_options *o, unsigned loops,
                   struct errbuf *eb) MUST_CHECK;
void loop_close(struct loop *l);
void loop_turn(struct loop *l); /* everything that is due, then sleep */
/* Cancels all fibers and wakes what is parked; from then on both are born cancelled. */
void loop_stop(struct loop *l);
bool loop_quiet(const struct loop *l); /* stopped, and nothing is alive or owed */
void loop_pass_token(struct loop *l);  /* run.c: l holds the token and is quiet */
void mailbox_push(struct loop *l, struct rt_msg *m);
