/* disk_ledger: what a client of one disk noted of every request, before it was sent and after its answer
 * (reference: "The ledger" in promises). Bodies say where they belong: each 8 bytes are a function of key, write
 * and offset, so that torn, old and swapped bytes show by themselves.
 */
#pragma once
#include "base/hash.h"
#include "check.h"
#include "store/store.h"

#define LEDGER_KEYS  12
#define LEDGER_MAYBE 8

/* One write of a key; `write` 0: absent. */
struct ledger_state {
    uint64_t
        write; /* counts writes; also its mtime, so that an entry tells which one it is */
    uint64_t size;
};
struct ledger_key {
    char name[40];
    struct ledger_state known;               /* acknowledged */
    struct ledger_state maybe[LEDGER_MAYBE]; /* sent since then, outcome unknown */
    unsigned maybe_count;
    bool busy; /* a fiber works on it */
};
struct ledger {
    struct ledger_key keys[LEDGER_KEYS];
    uint64_t writes;
    uint64_t acknowledged;
};

static inline void
ledger_init(struct ledger *l)
{
    *l = (struct ledger){0};
    for (unsigned i = 0; i < LEDGER_KEYS; i++) {
        struct ledger_key *k = &l->keys[i];

        if (i % 4 == 3) /* longer than one layer of the index */
            memset(k->name, 'x', sizeof k->name - 8);
        snprintf(k->name + strlen(k->name), sizeof k->name - strlen(k->name), "k/%02u",
                 i);
    }
}

static inline void
ledger_body(char *out, uint64_t size, const struct ledger_key *k, uint64_t write,
            uint64_t offset)
{
    uint64_t seed = hash_xxh3(k->name, strlen(k->name), write);

    for (uint64_t i = 0; i < size; i++) {
        uint64_t word = (offset + i) / 8;

        out[i] = (char)((seed + word * 0x9e3779b97f4a7c15u) >> (8 * ((offset + i) % 8)));
    }
}

static inline bool
ledger_body_is(const char *at, uint64_t len, const struct ledger_key *k, uint64_t write,
               uint64_t offset)
{
    char want[4096];

    for (uint64_t i = 0; i < len;) {
        uint64_t n = len - i < sizeof want ? len - i : sizeof want;

        ledger_body(want, n, k, write, offset + i);
        if (memcmp(at + i, want, n) != 0)
            return false;
        i += n;
    }
    return true;
}

/* Before a request is sent, after its answer. */
static inline void
ledger_sent(struct ledger_key *k, struct ledger_state s)
{
    k->maybe[k->maybe_count++] = s;
}
static inline void
ledger_answered(struct ledger *l, struct ledger_key *k, enum err rc, bool changed)
{
    struct ledger_state s = k->maybe[k->maybe_count - 1];

    if (rc == ERR_OK && changed) {
        k->known = s;
        k->maybe_count = 0;
        l->acknowledged++;
    } else if (rc == ERR_OK || rc == ERR_PRECONDITION || rc == ERR_NOT_FOUND ||
               rc == ERR_NO_UPLOAD) {
        k->maybe_count--; /* refused: it changed nothing */
    }
}
static inline bool
ledger_allows(const struct ledger_key *k, struct ledger_state s)
{
    if (k->known.write == s.write && k->known.size == s.size)
        return true;
    for (unsigned i = 0; i < k->maybe_count; i++) {
        if (k->maybe[i].write == s.write && k->maybe[i].size == s.size)
            return true;
    }
    return false;
}
