#include "bench/profile.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"
#include "base/mem.h"

#define MS(n) ((uint64_t)((n)*1e6))

static const struct profile profiles[] = {
    {"retinanet-b200", 322957, 0, 1, 24, MS(47.55), 0.85, 0, 0},
    {"resnet50-a100", 114660, 0, 1251, 400, MS(435), 0.90, 0, 0},
    {"resnet50-h100", 114660, 0, 1251, 400, MS(224), 0.90, 0, 0},
    {"unet3d-a100", 146600000, 68000000, 1, 7, MS(636), 0.90, 0, 0},
    {"unet3d-h100", 146600000, 68000000, 1, 7, MS(323), 0.90, 0, 0},
    {"unet3d-b200", 146600000, 68000000, 1, 7, MS(162), 0.90, 0, 0},
    {"cosmoflow-a100", 2830000, 0, 1, 1, MS(5.51), 0.70, 0, 0},
    {"cosmoflow-h100", 2830000, 0, 1, 1, MS(3.5), 0.70, 0, 0},
    {"flux-b200", 2160000, 0, 288, 48, MS(1350), 0.90, 0, 0},
    {"dlrm-b200", 761, 0, 131072, 16384, MS(0.375), 0.70, 40, 160},
};

enum err
profile_find(const char *name, struct profile *out, struct errbuf *eb)
{
    char names[256] = "";
    size_t at = 0;

    for (size_t i = 0; i < ARRAY_LEN(profiles); i++) {
        if (strcmp(profiles[i].name, name) == 0) {
            *out = profiles[i];
            return ERR_OK;
        }
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i > 0 ? ", " : "",
                               profiles[i].name);
    }
    return err_set(eb, ERR_BAD_REQUEST,
                   "--model \"%s\": there are %s, and checkpoint-8b, -70b, -405b, -1t",
                   name, names);
}

const struct profile *
profile_at(unsigned i)
{
    return i < ARRAY_LEN(profiles) ? &profiles[i] : NULL;
}

double
profile_samples_s(const struct profile *p)
{
    return p->batch / ((double)p->step_ns / 1e9);
}

uint64_t
profile_read_bytes(const struct profile *p)
{
    return p->columns > 0 ? p->read_bytes : p->sample_bytes;
}

uint32_t
profile_samples_in(const struct profile *p, uint64_t file_bytes)
{
    uint64_t n = p->samples_per_file > 1 ? file_bytes / p->sample_bytes : 1;

    return (uint32_t)MIN(MAX(n, 1u), (uint64_t)UINT32_MAX);
}

uint64_t
profile_file_bytes(const struct profile *p, uint64_t number)
{
    uint64_t mean = p->sample_bytes * p->samples_per_file;
    double share = (double)(hash_xxh3(&number, sizeof number, 3) >> 11) / 0x1p53;
    double half = sqrt(3) * (double)p->spread_bytes; /* evenly: that has this deviation */

    return (uint64_t)MAX((double)mean + (2 * share - 1) * half, 1.0);
}
