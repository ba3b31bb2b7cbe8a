/* The checker of histories (test/sim/linear.h): small histories whose verdict is known, and random ones of a register that
 * is right, or has one wrong answer. */
#include <assert.h>
#include <unistd.h>

#include "check.h"
#include "sim/linear.h"

/* ---- examples ---- */

struct step {
    enum history_call call;
    enum history_end end;
    uint32_t value, expected;
    uint64_t from, to;
};
#define STEPS_MAX 8
struct example {
    const char *name;
    struct step steps[STEPS_MAX];
    unsigned count;
    enum linear_verdict want;
};

#define W(value, from, to)                                                               \
    {                                                                                    \
        HISTORY_WRITE, HISTORY_OK, (value), 0, (from), (to)                              \
    }
#define R(value, from, to)                                                               \
    {                                                                                    \
        HISTORY_READ, HISTORY_OK, (value), 0, (from), (to)                               \
    }
#define LOST(value, from)                                                                \
    {                                                                                    \
        HISTORY_WRITE, HISTORY_UNKNOWN, (value), 0, (from), 0                            \
    }
#define DEL(from, to)                                                                    \
    {                                                                                    \
        HISTORY_REMOVE, HISTORY_OK, 0, 0, (from), (to)                                   \
    }

static const struct example examples[] = {
    {"one after the other",
     {W(1, 1, 2), R(1, 3, 4), W(2, 5, 6), R(2, 7, 8)},
     4,
     LINEAR_GOOD},
    {"absent first", {R(0, 1, 2), W(1, 3, 4)}, 2, LINEAR_GOOD},
    {"a stale read", {W(1, 1, 2), W(2, 3, 4), R(1, 5, 6)}, 3, LINEAR_BAD},
    {"a lost write", {W(1, 1, 2), R(0, 3, 4)}, 2, LINEAR_BAD},
    {"a read during a write may show either",
     {W(1, 1, 2), W(2, 3, 8), R(1, 4, 5), R(2, 6, 7)},
     4,
     LINEAR_GOOD},
    {"but not go back", {W(1, 1, 2), W(2, 3, 8), R(2, 4, 5), R(1, 6, 7)}, 4, LINEAR_BAD},
    {"unknown: done", {W(1, 1, 2), LOST(2, 3), R(2, 5, 6)}, 3, LINEAR_GOOD},
    {"unknown: not done", {W(1, 1, 2), LOST(2, 3), R(1, 5, 6)}, 3, LINEAR_GOOD},
    {"unknown: done late",
     {W(1, 1, 2), LOST(2, 3), R(1, 5, 6), R(2, 7, 8)},
     4,
     LINEAR_GOOD},
    {"unknown: not twice",
     {W(1, 1, 2), LOST(2, 3), R(2, 4, 5), W(3, 6, 7), R(2, 8, 9)},
     5,
     LINEAR_BAD},
    {"unknown: not before it began", {W(1, 1, 2), R(2, 3, 4), LOST(2, 5)}, 3, LINEAR_BAD},
    {"removed", {W(1, 1, 2), DEL(3, 4), R(0, 5, 6)}, 3, LINEAR_GOOD},
    {"removed, and there", {W(1, 1, 2), DEL(3, 4), R(1, 5, 6)}, 3, LINEAR_BAD},
    {"created once",
     {{HISTORY_CREATE, HISTORY_OK, 1, 0, 1, 4},
      {HISTORY_CREATE, HISTORY_REFUSED, 2, 0, 2, 5}},
     2,
     LINEAR_GOOD},
    {"created twice",
     {{HISTORY_CREATE, HISTORY_OK, 1, 0, 1, 4}, {HISTORY_CREATE, HISTORY_OK, 2, 0, 2, 5}},
     2,
     LINEAR_BAD},
    {"refused without a reason",
     {{HISTORY_CREATE, HISTORY_REFUSED, 1, 0, 1, 2}},
     1,
     LINEAR_BAD},
    {"a swap of two",
     {W(1, 1, 2),
      {HISTORY_SWAP, HISTORY_OK, 2, 1, 3, 6},
      {HISTORY_SWAP, HISTORY_REFUSED, 3, 1, 4, 7},
      R(2, 8, 9)},
     4,
     LINEAR_GOOD},
    {"a swap that both won",
     {W(1, 1, 2),
      {HISTORY_SWAP, HISTORY_OK, 2, 1, 3, 6},
      {HISTORY_SWAP, HISTORY_OK, 3, 1, 4, 7}},
     3,
     LINEAR_BAD},
    {"what had no effect",
     {W(1, 1, 2), {HISTORY_WRITE, HISTORY_NONE, 2, 0, 3, 4}, R(2, 5, 6)},
     3,
     LINEAR_BAD},
};

static struct history
history_of(const struct example *e)
{
    struct history h = {0};

    for (unsigned i = 0; i < e->count; i++) {
        const struct step *r = &e->steps[i];
        size_t at = history_begin(&h, &(struct history_op){.process = i,
                                                           .call = r->call,
                                                           .value = r->value,
                                                           .expected = r->expected,
                                                           .began_ns = r->from});

        if (r->end != HISTORY_UNKNOWN)
            history_end(&h, at, r->end, r->to);
    }
    return h;
}

static void
test_examples(void)
{
    for (size_t i = 0; i < ARRAY_LEN(examples); i++) {
        struct history h = history_of(&examples[i]);
        size_t bad = 0;
        enum linear_verdict got = linear_key(&h, 0, &bad);

        if (got != examples[i].want)
            fprintf(stderr, "example \"%s\":\n", examples[i].name);
        CHECK_U64(got, examples[i].want);
        history_free(&h);
    }
}

/* ---- random histories of a real register ---- */

#define CLIENTS 6u

static uint64_t
next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

struct client {
    bool busy;
    size_t op;
    uint64_t act_at, end_at;
    bool acted, refused, unknown;
    uint32_t read;
};

static void
act(struct client *c, const struct history_op *op, uint32_t *reg)
{
    bool holds = op->call == HISTORY_CREATE ? *reg == 0
                 : op->call == HISTORY_SWAP ? *reg == op->expected
                                            : true;

    c->acted = true;
    c->read = *reg;
    c->refused = !holds;
    if (op->call != HISTORY_READ && holds)
        *reg = op->call == HISTORY_REMOVE ? 0 : op->value;
}

static void
begin(struct client *c, unsigned i, struct history *h, uint32_t reg, uint64_t now,
      uint64_t *r)
{
    static const enum history_call calls[] = {HISTORY_READ,   HISTORY_READ,  HISTORY_READ,
                                              HISTORY_WRITE,  HISTORY_SWAP,  HISTORY_SWAP,
                                              HISTORY_CREATE, HISTORY_REMOVE};
    struct history_op op = {.process = i,
                            .call = calls[next_random(r) % ARRAY_LEN(calls)],
                            .value = ++h->values,
                            .expected = reg,
                            .began_ns = now};

    *c = (struct client){.busy = true,
                         .act_at = now + next_random(r) % 20,
                         .unknown = next_random(r) % 20 == 0};
    c->end_at = c->act_at + 1 + next_random(r) % 20;
    if (c->unknown && next_random(r) % 2 == 0)
        c->act_at += 100 + next_random(r) % 200; /* behind its end */
    c->op = history_begin(h, &op);
}

/* `wrong`: one read in the middle shows another value than there is. */
static void
random_history(uint64_t seed, struct history *h, bool wrong)
{
    struct client clients[CLIENTS] = {{0}};
    uint64_t r = seed;
    uint32_t reg = 0, reads = 0;

    for (uint64_t now = 1; now < 2000; now++) {
        for (unsigned i = 0; i < CLIENTS; i++) {
            struct client *c = &clients[i];
            struct history_op *op;

            if (!c->busy) {
                if (now < 1700 && next_random(&r) % 8 == 0)
                    begin(c, i, h, reg, now, &r);
                continue;
            }
            op = &h->at[c->op];
            if (!c->acted && now >= c->act_at)
                act(c, op, &reg);
            if (c->unknown ? now < MAX(c->end_at, c->act_at) : now < c->end_at)
                continue;
            c->busy = false;
            if (op->call == HISTORY_READ)
                op->value = c->read;
            if (op->call == HISTORY_READ && !c->unknown && ++reads == 20 && wrong)
                op->value = UINT32_MAX;
            history_end(h, c->op,
                        c->unknown   ? HISTORY_UNKNOWN
                        : c->refused ? HISTORY_REFUSED
                                     : HISTORY_OK,
                        now);
        }
    }
}

static void
test_a_register_is_linearizable(void)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct history h = {0};
        size_t bad;

        random_history(seed, &h, false);
        CHECK(h.count > 200);
        CHECK_U64(linear_key(&h, 0, &bad), LINEAR_GOOD);
        history_free(&h);
    }
}

static void
test_one_wrong_answer_is_found(void)
{
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct history h = {0};
        size_t bad;

        random_history(seed, &h, true);
        CHECK_U64(linear_key(&h, 0, &bad), LINEAR_BAD);
        CHECK(h.at[bad].call == HISTORY_READ);
        history_free(&h);
    }
}

/* ---- durability ---- */

static bool
durable_after(const struct step *steps, unsigned count)
{
    struct example e = {.count = count};
    struct history h;
    size_t bad = 0;
    bool good;

    memcpy(e.steps, steps, count * sizeof *steps);
    h = history_of(&e);
    h.at[count - 1].last = true;
    good = linear_durable(&h, 0, &bad);
    CHECK(good || bad == count - 1);
    history_free(&h);
    return good;
}
#define DURABLE(...)                                                                     \
    durable_after((const struct step[]){__VA_ARGS__},                                    \
                  sizeof(const struct step[]){__VA_ARGS__} / sizeof(struct step))

static void
test_durable(void)
{
    CHECK(DURABLE(W(1, 1, 2), R(1, 3, 4)));
    CHECK(!DURABLE(W(1, 1, 2), R(0, 3, 4)));
    CHECK(!DURABLE(W(1, 1, 2), W(2, 3, 4), R(1, 5, 6)));
    CHECK(DURABLE(W(1, 1, 4), W(2, 3, 5), R(1, 6, 7)));
    CHECK(DURABLE(W(1, 1, 2), LOST(2, 3), R(2, 5, 6)));
    CHECK(!DURABLE(W(1, 1, 2), R(7, 3, 4)));
    CHECK(DURABLE(W(1, 1, 2), DEL(3, 4), R(0, 5, 6)));
    CHECK(!DURABLE(DEL(1, 2), W(1, 3, 4), R(0, 5, 6)));
}

/* ---- the text form ---- */

static void
test_text(void)
{
    struct history h = history_of(&examples[16]);
    char path[] = "/tmp/forebay-history-XXXXXX", line[200];
    int fd = mkstemp(path);
    unsigned lines = 0;
    FILE *f;

    REQUIRE(fd >= 0);
    CHECK(history_write(&h, UINT_MAX, path));
    f = fdopen(fd, "r");
    REQUIRE(f != NULL);
    while (fgets(line, sizeof line, f) != NULL) {
        if (lines == 0)
            CHECK_STR(line,
                      "{\"time\":1,\"process\":0,\"type\":\"invoke\",\"f\":\"write\","
                      "\"key\":0,\"value\":1}\n");
        if (lines == 5)
            CHECK_STR(line, "{\"time\":7,\"process\":2,\"type\":\"fail\",\"f\":\"swap\","
                            "\"key\":0,\"value\":3,\"expected\":1}\n");
        lines++;
    }
    CHECK_U64(lines, 8);
    fclose(f);
    unlink(path);
    history_free(&h);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_examples);
    RUN(test_a_register_is_linearizable);
    RUN(test_one_wrong_answer_is_found);
    RUN(test_durable);
    RUN(test_text);
    return check_done();
}
