/* sync: condition variables and semaphores among the fibers of one loop. No threads; between loops use rt_post(). */
#pragma once
#include "rt/fiber.h"

/* signal wakes one waiter, broadcast all; neither keeps anything for later. */
struct rt_cond {
    struct list waiters;
};
void rt_cond_init(struct rt_cond *c);
enum err rt_cond_wait(struct rt_cond *c, struct deadline by) MUST_CHECK; /* May switch. */
void rt_cond_signal(struct rt_cond *c);
void rt_cond_broadcast(struct rt_cond *c);

/* A counting semaphore, first come first served. */
struct rt_sem {
    struct list waiters;
    unsigned free;
};
void rt_sem_init(struct rt_sem *s, unsigned count);
enum err rt_sem_acquire(struct rt_sem *s,
                        struct deadline by) MUST_CHECK; /* May switch. */
bool rt_sem_try_acquire(struct rt_sem *s);
void rt_sem_release(struct rt_sem *s);
