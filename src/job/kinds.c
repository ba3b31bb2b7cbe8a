/* kinds: the kinds of work there are. */
#include "job/internal.h"

static const struct job_kind *const kinds[] = {&job_prefetch, &job_evict, &job_copies,
                                               &job_drain, &job_fill};

const struct job_kind *
job_kind_find(struct span name)
{
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (span_is(name, kinds[i]->name))
            return kinds[i];
    return NULL;
}
