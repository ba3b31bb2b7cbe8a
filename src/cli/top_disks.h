/* top_disks: what each disk of a node did between two pages of its metrics, for `top`. */
#pragma once
#include "cli/samples.h"
#include "wire/json.h"

#define TOP_DISKS_MAX 16 /* more are left out */

struct top_disk {
    struct span name; /* borrowed from the later page */
    struct {
        double each_second, ms; /* count, and what one took */
    } read, write, sync;
    double free_bytes, errors_each_second;
    bool ok;
};
struct top_disks {
    unsigned count;
    struct top_disk at[TOP_DISKS_MAX];
};
void top_disks_find(const struct samples *before, const struct samples *after,
                    double seconds, struct top_disks *out);
void top_disks_print(const struct top_disks *d);
/* Member "disks". */
void top_disks_json(const struct top_disks *d, struct json *j);
