#include "http/loops.h"

void
loops_pause(void)
{
    struct rt_shield shield;
    enum err rc;

    rt_shield_begin(&shield);
    rc = rt_sleep_ms(5);
    (void)rc; /* cut short: the caller polls a little earlier */
    rt_shield_end(&shield);
}

void
loops_call(unsigned loop, fiber_fn *fn, void *arg)
{
    while (rt_call(loop, fn, arg) == ERR_BUSY)
        loops_pause();
}
