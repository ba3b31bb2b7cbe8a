/* Is the index in memory? A small one is when it is opened, a larger one is brought in behind that, piece by piece; what the kernel
 * takes back comes again later. */
#include <assert.h>
#include <lmdb.h>

#include "base/log.h"
#include "base/mem.h"
#include "rt/fault.h"
#include "store/index/index_internal.h"

#ifdef FB_TEST_HOOKS
#define TEST_MAY_SET
void (*index_on_populate)(void);
#else
#define TEST_MAY_SET static const
#endif
/* Brought in while opening; what is larger comes in behind the first requests. */
TEST_MAY_SET uint32_t index_populate_at_once = 32u << 20;
/* At a time, behind them: the end of a server waits for one piece, 0.3 s of a spinning disk. */
TEST_MAY_SET uint32_t index_populate_piece = 32u << 20;
/* What the kernel took is not brought in again before that; twice as long each time. */
#define AWAY_NS      (60 * UINT64_C(1000000000))
#define AWAY_NS_MOST (64 * AWAY_NS)

/* ---- on a worker ---- */

static void
note_size(struct index *x)
{
    MDB_envinfo info;
    MDB_stat stat;

    if (mdb_env_info(x->env, &info) != 0 || mdb_env_stat(x->env, &stat) != 0)
        return;
    atomic_store(&x->used_bytes, (info.me_last_pgno + 1) * (uint64_t)stat.ms_psize);
}

static bool
fits_memory(const struct index *x)
{
    return atomic_load(&x->used_bytes) <= x->options.memory_bytes;
}

/* The last pages may be free ones that were never written: then the file ends before them and the kernel refuses them; no reader needs
 * them. */
static void
populate_fetch(struct index *x)
{
    uint64_t used = atomic_load(&x->used_bytes);
    uint64_t more = used - MIN(used, x->populated_bytes);

    assert(x->map != NULL && used <= x->map_len);
    if (more > 0)
        (void)!rt_map_populate((const char *)x->map + x->populated_bytes, more);
    x->populated_bytes = used;
    atomic_store(&x->resident, true);
}

void
index_opened(struct index *x)
{
    note_size(x);
    if (fits_memory(x) && (atomic_load(&x->used_bytes) <= index_populate_at_once ||
                           rt_engine_now() == RT_SIM))
        populate_fetch(x);
}

void
index_grown(struct index *x)
{
    note_size(x);
    if (!fits_memory(x))
        atomic_store(&x->resident, atomic_load(&x->replaying));
    else if (atomic_load(&x->resident))
        populate_fetch(x); /* it was written just now */
}

/* ---- any thread ---- */

void
index_replaying(struct index *x, bool yes)
{
    atomic_store(&x->replaying, yes);
    if (atomic_load(&x->used_bytes) > x->options.memory_bytes)
        atomic_store(&x->resident, yes);
}

/* For a while it is not read in again. */
static void
memory_is_reclaimed(struct index *x)
{
    atomic_store(&x->away_ns, rt_now_ns());
    atomic_fetch_add(&x->times_away, 1);
}

void
index_is_absent(struct index *x)
{
    if (!atomic_exchange(&x->resident, false))
        return;
    memory_is_reclaimed(x);
    LOG(LOG_INFO, "index.away",
        "pages of the index are not in memory any more: look-ups ask for each",
        L_TEXT("path", rt_dir_path(x->dir)));
}

/* ---- owner loop ---- */

/* Not at once again what the kernel has just taken. */
static bool
memory_stays_absent(struct index *x)
{
    uint64_t since_ns = atomic_load(&x->away_ns);
    unsigned times = MIN(MAX(atomic_load(&x->times_away), 1u), 7u);

    if (since_ns == 0)
        return false;
    if (rt_now_ns() - since_ns < MIN(AWAY_NS << (times - 1), AWAY_NS_MOST))
        return true;
    atomic_store(&x->away_ns, 0);
    x->populated_bytes = 0;
    return false;
}

struct piece {
    const struct index *x;
    uint64_t from, len;
    enum err rc;
};

static void
populate_piece_work(void *arg)
{
    struct piece *p = arg;

#ifdef FB_TEST_HOOKS
    if (index_on_populate != NULL)
        index_on_populate();
#endif
    p->rc = rt_map_populate((const char *)p->x->map + p->from, p->len);
}

/* A batch on another thread may have made it too large just now: the later of the two sees that. */
static void
is_all_here(struct index *x)
{
    atomic_store(&x->resident, true);
    if (!fits_memory(x))
        atomic_store(&x->resident, atomic_load(&x->replaying));
}

/* Batches are committed meanwhile, and it grows. What the pool does not take now is gone on with when it is asked for again. */
static void
populate_fiber(void *arg)
{
    struct index *x = arg;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && !x->populate_no_more && fits_memory(x)) {
        uint64_t used = atomic_load(&x->used_bytes);
        struct piece p = {.x = x, .from = x->populated_bytes};

        p.len = MIN(used - MIN(used, p.from), (uint64_t)index_populate_piece);
        if (p.len > 0)
            rc = rt_blocking(populate_piece_work, &p, DEADLINE_NEVER);
        if (rc == ERR_OK && p.rc == ERR_BUSY) {
            memory_is_reclaimed(x);
            break;
        }
        /* What the disk does not give may be the pages behind the end of the file. */
        if (rc == ERR_OK)
            x->populated_bytes = p.rc == ERR_OK ? p.from + p.len : used;
        if (rc == ERR_OK && p.len == 0) {
            is_all_here(x);
            break;
        }
        rt_cond_broadcast(&x->populated);
    }
    assert(x->populating);
    x->populating = false;
    rt_cond_broadcast(&x->populated);
}

void
index_populate_behind(struct index *x)
{
    if (atomic_load(&x->resident) || x->populating || x->populate_no_more ||
        !fits_memory(x) || memory_stays_absent(x))
        return;
    x->populating = true;
    if (rt_spawn(populate_fiber, x) != ERR_OK)
        x->populating = false;
}

void
index_wait_populated(struct index *x, const _Atomic bool *stop)
{
    struct rt_shield shield;

    if (!x->populating)
        return;
    rt_shield_begin(&shield);
    while (x->populating && (stop == NULL || !atomic_load(stop)))
        (void)!rt_cond_wait(&x->populated, DEADLINE_NEVER);
    rt_shield_end(&shield);
}

void
index_will_close(struct index *x)
{
    x->populate_no_more = true;
}

void
index_end_populating(struct index *x)
{
    index_will_close(x);
    index_wait_populated(x, NULL);
}
