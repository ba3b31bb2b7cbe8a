/* beat: the value of `beat/N`. docs/formats.md, section "beat record". Only this room includes it. */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"
#include "members/members.h"

#define BEAT_KEY_MAX 24

struct beat {
    uint64_t incarnation;               /* of the process */
    uint64_t sequence;                  /* so that no two beats are equal */
    uint64_t epoch;                     /* of the map that was adopted */
    int64_t wall_ms;                    /* of its wall clock, to show skew */
    uint64_t adopted[MEMBERS_ADOPTED_]; /* revisions of the state that it acts by */
};
struct span beat_key(uint32_t number, char out[BEAT_KEY_MAX]);
/* 0: it is no such key. */
uint32_t beat_key_number(struct span key);
void beat_encode(const struct beat *b, struct buf *out);
enum err beat_decode(struct span record, struct beat *out, struct errbuf *eb) MUST_CHECK;
