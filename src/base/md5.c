/* Streams, padding, and which lanes run how far. Kernels: md5_kernels.c. */
#define OPENSSL_SUPPRESS_DEPRECATED 1

#include "base/md5.h"

#include <assert.h>
#include <openssl/md5.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

static const struct md5_kernel *kernel;

__attribute__((constructor)) static void
md5_start(void)
{
    unsigned count;

    kernel = md5_kernels(&count)[0];
}

bool
md5_use(const char *name)
{
    unsigned count;
    const struct md5_kernel *const *all = md5_kernels(&count);

    for (unsigned i = 0; i < count; i++) {
        if (strcmp(all[i]->name, name) == 0) {
            kernel = all[i];
            return true;
        }
    }
    return false;
}

const char *
md5_used(void)
{
    return kernel->name;
}

unsigned
md5_lanes(void)
{
    return kernel->lanes;
}

/* One stream: OpenSSL's code for whole blocks, on our state. (EVP cannot start from a state; the functions OpenSSL
 * calls deprecated exist in all of 3.x, see digest.c.) */
static void
md5_run_one(uint32_t state[4], const unsigned char *at, size_t blocks)
{
    MD5_CTX c = {.A = state[0], .B = state[1], .C = state[2], .D = state[3]};

    if (!MD5_Update(&c, at, blocks * MD5_BLOCK))
        abort(); /* it cannot fail */
    state[0] = c.A;
    state[1] = c.B;
    state[2] = c.C;
    state[3] = c.D;
}

/* ---- a job is up to three runs of blocks: what completes the tail, the body, the end ---- */

static size_t
fill_tail(struct md5_job *j)
{
    struct md5 *m = j->md5;
    size_t have = m->len % MD5_BLOCK, n = MIN(j->len, MD5_BLOCK - have);

    if (have == 0 || n == 0)
        return 0;
    memcpy(m->tail + have, j->data, n);
    m->len += n;
    j->data += n;
    j->len -= n;
    return m->len % MD5_BLOCK == 0 ? 1 : 0;
}

static void
put_le64(unsigned char *p, uint64_t v)
{
    for (int i = 0; i < 8; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

/* RFC 1321, 3.1 and 3.2. */
static size_t
md5_pad(struct md5_job *j)
{
    size_t have = j->md5->len % MD5_BLOCK, blocks = have < 56 ? 1 : 2;

    memcpy(j->pad, j->md5->tail, have);
    j->pad[have] = 0x80;
    memset(j->pad + have + 1, 0, blocks * MD5_BLOCK - have - 1);
    put_le64(j->pad + blocks * MD5_BLOCK - 8, j->md5->len << 3);
    return blocks;
}

/* The rest of less than a block: kept for later, or the end. */
static size_t
keep_rest(struct md5_job *j)
{
    if (j->len > 0) {
        memcpy(j->md5->tail, j->data, j->len); /* the tail was completed, or was empty */
        j->md5->len += j->len;
        j->len = 0;
    }
    return j->out != NULL ? md5_pad(j) : 0;
}

static void
md5_put_state(const struct md5 *m, unsigned char out[16])
{
    for (int i = 0; i < 16; i++)
        out[i] = (unsigned char)(m->state[i / 4] >> 8 * (i % 4));
}

/* The next blocks of a job, 0 when it is over. */
static size_t
next_blocks(struct md5_job *j, const unsigned char **at)
{
    size_t blocks;

    switch (j->phase) {
    case MD5_BEGIN:
        j->phase = MD5_BODY;
        blocks = fill_tail(j);
        *at = j->md5->tail;
        if (blocks > 0)
            return blocks;
        /* fall through */
    case MD5_BODY:
        j->phase = MD5_REST;
        blocks = j->len / MD5_BLOCK;
        *at = j->data;
        j->data += blocks * MD5_BLOCK;
        j->len -= blocks * MD5_BLOCK;
        j->md5->len += blocks * MD5_BLOCK;
        if (blocks > 0)
            return blocks;
        /* fall through */
    case MD5_REST:
        j->phase = MD5_OVER;
        blocks = keep_rest(j);
        *at = j->pad;
        if (blocks > 0)
            return blocks;
        /* fall through */
    case MD5_OVER:
        break;
    }
    if (j->out != NULL)
        md5_put_state(j->md5, j->out);
    return 0;
}

static void
run_alone(struct md5_job *j, const unsigned char *at, size_t blocks)
{
    while (blocks > 0) {
        md5_run_one(j->md5->state, at, blocks);
        blocks = next_blocks(j, &at);
    }
}

/* ---- lanes ---- */

struct lanes {
    struct md5_job *waiting;
    unsigned count; /* that are taken: the first ones */
    struct md5_lane lane[MD5_LANES_MAX];
    struct md5_job *job[MD5_LANES_MAX];
    size_t left[MD5_LANES_MAX]; /* blocks */
};

/* Takes jobs until all lanes are. */
static void
fill_lanes(struct lanes *l)
{
    while (l->count < kernel->lanes && l->waiting != NULL) {
        struct md5_job *j = l->waiting;
        unsigned i = l->count;

        l->waiting = j->next;
        j->phase = MD5_BEGIN;
        l->left[i] = next_blocks(j, &l->lane[i].at);
        l->lane[i].state = j->md5->state;
        l->job[i] = j;
        if (l->left[i] > 0)
            l->count++;
    }
}

/* `blocks` of each lane are done. Those that are over give their place to the last one. */
static void
md5_advance(struct lanes *l, size_t blocks)
{
    for (unsigned i = 0; i < l->count;) {
        l->left[i] -= blocks;
        if (l->left[i] == 0)
            l->left[i] = next_blocks(l->job[i], &l->lane[i].at);
        if (l->left[i] > 0) {
            i++;
            continue;
        }
        l->count--;
        l->left[i] = l->left[l->count];
        l->lane[i] = l->lane[l->count];
        l->job[i] = l->job[l->count];
    }
}

static size_t
md5_shortest(const struct lanes *l)
{
    size_t least = l->left[0];

    for (unsigned i = 1; i < l->count; i++)
        least = MIN(least, l->left[i]);
    return least;
}

void
md5_run(struct md5_job *jobs)
{
    struct lanes l = {.waiting = jobs};

    /* Two in lanes take the time of one, on every kernel. */
    for (fill_lanes(&l); l.count > 1; fill_lanes(&l)) {
        size_t blocks = md5_shortest(&l);

        kernel->run(l.lane, l.count, blocks);
        md5_advance(&l, blocks);
    }
    if (l.count == 1)
        run_alone(l.job[0], l.lane[0].at, l.left[0]);
}

/* ---- one stream ---- */

void
md5_init(struct md5 *m)
{
    *m = (struct md5){.state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476}};
}

static void
add_alone(struct md5 *m, const void *data, size_t len, unsigned char *out)
{
    struct md5_job j = {.md5 = m, .data = data, .len = len, .out = out};
    const unsigned char *at;
    size_t blocks = next_blocks(&j, &at);

    run_alone(&j, at, blocks);
}

void
md5_add(struct md5 *m, const void *data, size_t len)
{
    add_alone(m, data, len, NULL);
}

void
md5_end(struct md5 *m, unsigned char out[16])
{
    add_alone(m, NULL, 0, out);
}
