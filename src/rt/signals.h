/* signals: SIGTERM and its like become fibers of loop 0; a stack overflow says so before
 * it kills. Inside `rt` only. */
#pragma once
#include "rt/internal.h"

/* A stack for handlers, so that they run even when a fiber's own is used up. */
struct signal_stack {
    void *at; /* owned */
};
void signals_thread_begin(struct signal_stack *st);
void signals_thread_end(struct signal_stack *st);
void signals_close(struct loop *zero); /* the handlers that were there before are back */
