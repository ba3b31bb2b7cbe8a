/* findings: what `disk check` and `disk check --repair` say of the disk of the world, remembered. */
#pragma once
#include "store/store_health.h"
#include "store/store_rescue.h"
#include "world.h"

#define NAMES_MAX 200u
static char names[NAMES_MAX]
                 [64]; /* of the latest check or repair: too large for a fiber's stack */

struct findings {
    char (*damaged)[64]; /* `names` */
    unsigned count, notes, mended;
    char first[512];
};

/* The key in a sentence: object "KEY" of bucket 7. */
static inline void
take_key(struct findings *h, const char *sentence)
{
    const char *at = strstr(sentence, "object \""), *end;

    if (at == NULL || h->count == NAMES_MAX)
        return;
    at += strlen("object \"");
    end = strchr(at, '"');
    snprintf(h->damaged[h->count++], sizeof h->damaged[0], "%.*s", (int)(end - at), at);
}

static inline void
on_finding(void *arg, enum store_says what, const char *sentence)
{
    struct findings *h = arg;

    if (what == STORE_SAYS_DAMAGED && h->first[0] == '\0')
        snprintf(h->first, sizeof h->first, "%s", sentence);
    if (what == STORE_SAYS_DAMAGED)
        take_key(h, sentence);
    h->notes += what == STORE_SAYS_NOTE;
    h->mended += what == STORE_SAYS_REPAIRED;
}

static inline void
hear_check(void *arg, bool fault, const char *sentence)
{
    on_finding(arg, fault ? STORE_SAYS_DAMAGED : STORE_SAYS_NOTE, sentence);
}

static inline void
scratch_of(char out[256])
{
    snprintf(out, 256, "%.*s", (int)(strlen(world_path) - 5), world_path);
}

static inline struct findings
check(struct store_checked *out)
{
    struct findings h = {.damaged = names};
    struct errbuf eb = {0};
    char scratch[256];

    scratch_of(scratch);
    if (store_check(world_path, scratch, hear_check, &h, out, &eb) != ERR_OK)
        CHECK_STR(eb.text, "");
    return h;
}

static inline struct findings
repair(bool drop, struct store_repaired *out)
{
    struct findings h = {.damaged = names};
    struct errbuf eb = {0};
    char scratch[256];
    struct store_repair_options o = {
        .scratch = scratch, .drop_damaged = drop, .say = on_finding, .arg = &h};

    scratch_of(scratch);
    if (store_repair(world_path, &o, out, &eb) != ERR_OK)
        CHECK_STR(eb.text, "");
    return h;
}
