/* traffic: which buckets and which clients a node's requests are of: gathered from its /_/trace, which keeps the last ones. Where they
 * come faster than it keeps them, what was seen stands for all. Fibers of one loop. */
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
    bool silent; /* the server does not say */
};
/* Adds what ended since the last look; the first look adds nothing. ERR_CANCELLED; any other trouble leaves it silent. */
enum err traffic_look(struct session *s, struct traffic *t) MUST_CHECK;
/* Of each kind the busiest first. How many requests each one that was seen stands for is returned. */
double traffic_sort(struct traffic *t);
void traffic_clear(struct traffic *t); /* but where it stands */
