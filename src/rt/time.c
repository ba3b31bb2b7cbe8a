#include "rt/time.h"

#include "rt/engine.h"

uint64_t
rt_now_ns(void)
{
    return rt_engine_ops()->now_ns();
}

uint64_t
rt_wall_ns(void)
{
    return rt_engine_ops()->wall_ns();
}
