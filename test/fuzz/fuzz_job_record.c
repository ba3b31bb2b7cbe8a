/* Any bytes as a job's record: refused, or a job that can be freed. */
#include <stdint.h>

#include "job/internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct job *j = job_of_record((struct span){(const char *)data, size});

    job_free(&j);
    return 0;
}
