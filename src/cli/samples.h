/* samples: a page of /_/metrics, and what happened between two of them. Any thread. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

struct samples; /* owns a copy of the page */
/* Lines that are no sample are left out; over SAMPLES_MAX of them are ERR_TOO_LARGE. */
#define SAMPLES_MAX 100000u
enum err samples_parse(struct span page, struct samples **out,
                       struct errbuf *eb) MUST_CHECK;
void samples_free(struct samples **sp); /* NULL is fine */

/* The sum of all samples of that name whose labels hold each of the texts, as `op="get"`; either may be NULL. */
double samples_sum(const struct samples *s, const char *name, const char *label,
                   const char *label2);
/* The value of a label of the index-th sample of that name, with its escapes; false beyond the last. */
bool samples_label(const struct samples *s, const char *name, const char *label,
                   size_t index, struct span *out);
/* Seconds below which a share `q` of what a histogram counted between two pages lies, from its buckets; 0 when nothing was. */
double samples_quantile(const struct samples *before, const struct samples *after,
                        const char *name, const char *label, double q);
