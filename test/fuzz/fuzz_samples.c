/* A page of metrics from a server: any bytes. */
#include <assert.h>

#include "cli/samples.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

int
LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct samples *s = NULL;
    struct errbuf eb = {{0}};

    if (size > 4096)
        return 0;
    assert(samples_parse((struct span){(const char *)data, size}, &s, &eb) == ERR_OK);
    (void)samples_sum(s, "a", "b=\"c\"", NULL);
    (void)samples_quantile(s, s, "a", NULL, 0.5);
    samples_free(&s);
    return 0;
}
