#include "rt/time.h"

#include "rt/internal.h"

uint64_t
rt_now_ns(void)
{
    return rt_engine_ops()->now_ns();
}

uint64_t
rt_turn_ns(void)
{
    return loop_self != NULL ? loop_self->now_ns : rt_now_ns();
}

uint64_t
rt_wall_ns(void)
{
    return rt_engine_ops()->wall_ns();
}
