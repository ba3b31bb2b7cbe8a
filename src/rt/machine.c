#include "rt/machine.h"

#include <assert.h>
#include <sys/sysinfo.h>

#include "base/mem.h"

/* sysinfo() gives loads in units of 1/65536. */
#define LOAD_UNIT 65536.0

void
rt_machine_now(struct rt_machine *out)
{
    struct sysinfo s = {0};
    uint64_t unit;

    *out = (struct rt_machine){.cpus = (unsigned)MAX(get_nprocs(), 1)};
    if (sysinfo(&s) != 0)
        return;
    unit = s.mem_unit;
    out->memory_bytes = s.totalram * unit;
    out->available_bytes = (s.freeram + s.bufferram) * unit;
    assert(out->available_bytes <= out->memory_bytes);
    for (int i = 0; i < 3; i++)
        out->load[i] = (double)s.loads[i] / LOAD_UNIT;
}
