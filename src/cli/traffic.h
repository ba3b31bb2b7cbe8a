/* traffic: the busiest buckets and clients of a node, from its /_/trace, a ring of recent requests. When the ring overflows
 * between two calls, the figures are a sample. Fibers of one loop. */
#pragma once
#include "cli/session.h"

#define TRAFFIC_SHARES                                                                   \
    256 /* more buckets or clients than that in one interval are left out */
struct traffic_share {
    char name[64];
    double requests, in, out;
};
struct traffic_kind {
    struct traffic_share at[TRAFFIC_SHARES];
    unsigned count;
};
struct traffic {
    struct traffic_kind buckets, clients;
    double seen, lost;
    uint64_t after;
    bool silent; /* the server has no trace */
};
/* Adds what ended since the last look; the first look adds nothing. ERR_CANCELLED; any other error sets `silent`. */
enum err traffic_look(struct session *s, struct traffic *t) MUST_CHECK;
/* Of each kind the busiest first. How many requests each one that was seen stands for is returned. */
double traffic_sort(struct traffic *t);
void traffic_clear(struct traffic *t); /* but where it stands */
