/* history: requests of the clients of a cluster and their answers, for checkers: this tree's (linear.h) and any other one that reads the
 * text form (test/README.md, "Histories").
 *
 * A key is a register: absent (0), or a value that only one operation ever writes. An operation whose outcome is unknown
 * may have taken effect at any time since it began, or may do so later, or never.
 */
#pragma once
#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

enum history_call {
    HISTORY_READ,
    HISTORY_WRITE,
    HISTORY_CREATE, /* written if the key is absent */
    HISTORY_SWAP,   /* written if the value is `expected` */
    HISTORY_REMOVE,
};
enum history_end {
    HISTORY_UNKNOWN,
    HISTORY_OK,
    HISTORY_REFUSED, /* its condition did not hold */
    HISTORY_NONE, /* had no effect and never will, whatever the reason; reads that failed */
};
#define HISTORY_FOREVER UINT64_MAX

struct history_op {
    unsigned process, key;
    enum history_call call;
    enum history_end end;
    uint32_t value;              /* written, or read; 0: absent */
    uint32_t expected;           /* of a swap */
    uint64_t began_ns, ended_ns; /* HISTORY_FOREVER: unknown */
    bool last;                   /* a read when all trouble was over */
};
struct history {
    struct history_op *at; /* owned */
    size_t count, room;
    uint32_t values; /* handed out */
};

/* Its place; it is unknown until it ends. */
static inline size_t
history_begin(struct history *h, const struct history_op *op)
{
    if (h->count == h->room) {
        h->room = h->room > 0 ? 2 * h->room : 256;
        h->at = xrealloc(h->at, h->room * sizeof *h->at);
    }
    h->at[h->count] = *op;
    h->at[h->count].end = HISTORY_UNKNOWN;
    h->at[h->count].ended_ns = HISTORY_FOREVER;
    return h->count++;
}

static inline void
history_end(struct history *h, size_t at, enum history_end end, uint64_t now_ns)
{
    struct history_op *op = &h->at[at];

    assert(at < h->count);
    assert(op->end == HISTORY_UNKNOWN);
    if (end == HISTORY_UNKNOWN && op->call == HISTORY_READ)
        end = HISTORY_NONE;
    op->end = end;
    op->ended_ns = end == HISTORY_UNKNOWN ? HISTORY_FOREVER : now_ns;
    assert(op->ended_ns >= op->began_ns);
}

static inline void
history_free(struct history *h)
{
    free(h->at);
    *h = (struct history){0};
}

/* ---- the text form ---- */

static const char *const history_calls[] = {"read", "write", "create", "swap", "remove"};
static const char *const history_ends[] = {"info", "ok", "fail", "none"};

static inline void
history_put_event(FILE *f, const struct history_op *op, uint64_t now_ns, const char *type)
{
    fprintf(f,
            "{\"time\":%" PRIu64 ",\"process\":%u,\"type\":\"%s\",\"f\":\"%s\","
            "\"key\":%u,\"value\":%u",
            now_ns, op->process, type, history_calls[op->call], op->key,
            strcmp(type, "invoke") == 0 && op->call == HISTORY_READ ? 0 : op->value);
    if (op->call == HISTORY_SWAP)
        fprintf(f, ",\"expected\":%u", op->expected);
    fputs("}\n", f);
}

struct history_event {
    uint64_t at_ns;
    size_t op;
    bool is_end;
};

/* In order of time; of several at the same time begins first: then they overlap. */
static inline int
history_compare(const void *a, const void *b)
{
    const struct history_event *x = a, *y = b;

    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    if (x->is_end != y->is_end)
        return x->is_end ? 1 : -1;
    return x->op < y->op ? -1 : x->op > y->op;
}

/* Of operations of one key, or of all (`key` UINT_MAX). The caller frees *out. */
static inline size_t
history_events(const struct history *h, unsigned key, struct history_event **out)
{
    size_t n = 0;

    *out = xcalloc(2 * h->count + 1, sizeof **out);
    for (size_t i = 0; i < h->count; i++) {
        const struct history_op *op = &h->at[i];

        if (key != UINT_MAX && op->key != key)
            continue;
        (*out)[n++] = (struct history_event){op->began_ns, i, false};
        (*out)[n++] = (struct history_event){op->ended_ns, i, true};
    }
    qsort(*out, n, sizeof **out, history_compare);
    return n;
}

/* One event a line, in order of time. False: the file could not be written. */
static inline bool
history_write(const struct history *h, unsigned key, const char *path)
{
    FILE *f = fopen(path, "we");
    struct history_event *events;
    size_t n = history_events(h, key, &events);
    bool good = f != NULL;

    for (size_t i = 0; good && i < n; i++) {
        const struct history_op *op = &h->at[events[i].op];

        history_put_event(f, op, events[i].is_end ? op->ended_ns : op->began_ns,
                          events[i].is_end ? history_ends[op->end] : "invoke");
    }
    free(events);
    if (f != NULL && (ferror(f) != 0 || fclose(f) != 0))
        good = false;
    return good;
}
