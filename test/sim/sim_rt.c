/* Protects: the simulator itself, under random load. A log that is synced keeps what it acknowledged through power
 * cuts; a small file is whole, old or new; pipes carry bytes in order; sleeps last as long as they should; the
 * same seed makes the same world. */
#include "base/hash.h"
#include "base/mem.h"
#include "rt/file.h"
#include "rt/net.h"
#include "rt/sim.h"
#include "sim_main.h"

#define WORLDS     4u
#define WRITERS    3u
#define BLOCK      4096u
#define BLOCKS_MAX 400u

/* What was acknowledged to the outside, over all worlds. */
struct writer {
    unsigned number;
    unsigned acked;   /* blocks 0..acked-1 were synced */
    unsigned written; /* handed over at most */
    uint64_t setting, setting_acked, setting_tried;
};
struct load {
    struct writer writers[WRITERS];
    unsigned world;
};

static uint64_t
below(uint64_t n)
{
    return sim_random() % n;
}

/* ---- logs ---- */
static void
fill_block(char *at, const struct writer *w, unsigned index)
{
    uint64_t x = (uint64_t)w->number << 32 | index;

    for (unsigned i = 0; i < BLOCK; i += sizeof x) {
        memcpy(at + i, &x, sizeof x);
        x = x * 6364136223846793005u + 1442695040888963407u;
    }
}

static enum err
check_log(struct rt_file *f, const struct writer *w, struct errbuf *eb)
{
    struct iobuf *b = NULL;
    char *want = xmalloc(BLOCK);
    enum err rc = iobuf_get(BLOCK, &b);

    for (unsigned i = 0; rc == ERR_OK && i < w->acked; i++) {
        uint32_t n = 0;

        rc =
            rt_read(f, (uint64_t)i * BLOCK, b, 0, BLOCK, RT_READ, DEADLINE_NEVER, &n, eb);
        fill_block(want, w, i);
        if (rc == ERR_OK)
            CHECK(n == BLOCK && memcmp(want, b->at, BLOCK) == 0);
    }
    iobuf_drop(&b);
    free(want);
    return rc;
}

static enum err
append(struct rt_file *f, struct writer *w, struct errbuf *eb)
{
    struct iobuf *b = NULL;
    enum err rc = iobuf_get(BLOCK, &b);

    if (rc == ERR_OK) {
        fill_block(b->at, w, w->written);
        rc = rt_write(f, (uint64_t)w->written * BLOCK, b, 0, BLOCK, RT_WRITE, eb);
    }
    iobuf_drop(&b);
    w->written += rc == ERR_OK;
    return rc;
}

/* Creating it and telling its directory comes before the first acknowledgement. */
static enum err
write_log(struct rt_dir *d, struct writer *w, struct errbuf *eb)
{
    struct rt_file *f = NULL;
    char name[16];
    enum err rc;

    snprintf(name, sizeof name, "log-%u", w->number);
    rc = rt_open(d, name, RT_O_WRITE | RT_O_DIRECT | (w->acked == 0 ? RT_O_CREATE : 0u),
                 0600, &f, eb);
    if (rc == ERR_OK)
        rc = rt_dir_sync(d, eb);
    if (rc == ERR_OK)
        rc = check_log(f, w, eb);
    w->written = w->acked;
    while (rc == ERR_OK && w->written < BLOCKS_MAX) {
        unsigned batch = 1 + (unsigned)below(5);

        for (unsigned i = 0; rc == ERR_OK && i < batch; i++)
            rc = append(f, w, eb);
        if (rc == ERR_OK)
            rc = rt_sync(f, eb);
        if (rc == ERR_OK)
            w->acked = w->written;
        if (below(20) == 0)
            break;
    }
    rt_file_close(&f);
    return rc;
}

/* ---- a small file, replaced as a whole ---- */
static enum err
keep_setting(struct rt_dir *d, struct writer *w, struct errbuf *eb)
{
    char name[16], text[32], *found = NULL;
    size_t len;
    enum err rc;

    snprintf(name, sizeof name, "set-%u", w->number);
    rc = rt_file_load(d, name, 100, &found, &len, eb);
    if (rc == ERR_OK) {
        uint64_t now = strtoull(found, NULL, 10);

        CHECK(len > 0 && found[len - 1] == '!');
        CHECK(now >= w->setting_acked && now <= w->setting_tried);
        free(found);
    } else if (rc == ERR_NOT_FOUND) {
        CHECK_U64(w->setting_acked, 0);
        rc = ERR_OK;
    }
    for (int i = 0; rc == ERR_OK && i < 3; i++) {
        snprintf(text, sizeof text, "%llu!", (unsigned long long)++w->setting);
        w->setting_tried = w->setting;
        rc = rt_file_store(d, name, text, strlen(text), 0600, eb);
        if (rc == ERR_OK)
            w->setting_acked = w->setting;
    }
    return rc;
}

static void
write_on(void *arg)
{
    struct writer *w = arg;
    struct rt_dir *d = NULL;
    struct errbuf eb = {0};
    enum err rc = rt_dir_open("/disk", &d, &eb);

    if (rc == ERR_OK)
        rc = keep_setting(d, w, &eb);
    if (rc == ERR_OK)
        rc = write_log(d, w, &eb);
    if (rc != ERR_OK && rc != ERR_CANCELLED)
        fprintf(stderr, "writer %u: %s: %s\n", w->number, err_name(rc), eb.text);
    CHECK(rc == ERR_OK || rc == ERR_CANCELLED);
    rt_dir_close(&d);
}

/* ---- pipes ---- */
struct flow {
    struct stream *s;
    size_t bytes;
};

static void
send_flow(void *arg)
{
    struct flow *f = arg;
    char data[3000];
    enum err rc = ERR_OK;

    for (size_t sent = 0; rc == ERR_OK && sent < f->bytes;) {
        size_t n = 1 + (size_t)below(sizeof data);

        n = MIN(n, f->bytes - sent);
        for (size_t i = 0; i < n; i++)
            data[i] = (char)((sent + i) * 31);
        rc = rt_send(f->s, data, n, DEADLINE_NEVER, NULL);
        sent += n;
        if (below(10) == 0)
            rt_yield();
    }
    if (rc == ERR_OK)
        rc = rt_send_end(f->s, DEADLINE_NEVER);
    CHECK(rc == ERR_OK || rc == ERR_CANCELLED);
}

static void
receive_flow(struct flow *f)
{
    char data[2500];
    size_t total = 0, n = 1;
    enum err rc = ERR_OK;

    while (rc == ERR_OK && n > 0) {
        rc =
            rt_recv(f->s, data, 1 + (size_t)below(sizeof data), DEADLINE_NEVER, &n, NULL);
        for (size_t i = 0; rc == ERR_OK && i < n; i++)
            CHECK(data[i] == (char)((total + i) * 31));
        total += n;
    }
    CHECK(rc == ERR_CANCELLED || total == f->bytes);
}

static void
pump(void *arg)
{
    struct flow out = {.bytes = 50000 + below(100000)}, in = out;
    struct rt_group g;

    (void)arg;
    if (rt_pipe(&out.s, &in.s) != ERR_OK)
        return;
    rt_group_begin(&g);
    if (rt_group_start(&g, send_flow, &out) == ERR_OK)
        receive_flow(&in);
    rt_group_join(&g);
    rt_stream_close(&out.s);
    rt_stream_close(&in.s);
}

/* ---- timers ---- */
static void
sleep_often(void *arg)
{
    (void)arg;
    for (int i = 0; i < 30; i++) {
        uint64_t ms = below(50), begin = rt_now_ns(), took;

        if (rt_sleep_ms(ms) != ERR_OK) {
            CHECK(rt_cancelled());
            return;
        }
        took = rt_now_ns() - begin;
        CHECK(took >= ms * 1000000 && took < ms * 1000000 + 1000000);
    }
}

/* ---- worlds ---- */
static void
live(void *arg)
{
    struct load *l = arg;
    struct rt_group g;
    enum err rc = ERR_OK;

    rt_group_begin(&g);
    for (unsigned i = 0; rc == ERR_OK && i < WRITERS; i++)
        rc = rt_group_start(&g, write_on, &l->writers[i]);
    if (rc == ERR_OK)
        rc = rt_group_start(&g, pump, NULL);
    if (rc == ERR_OK)
        rc = rt_group_start(&g, sleep_often, NULL);
    CHECK(rc == ERR_OK);
    if (below(4) == 0) { /* sometimes the end is not waited for */
        rc = rt_sleep_ms(below(30));
        rt_group_cancel(&g);
        CHECK(rc == ERR_OK || rc == ERR_CANCELLED);
    }
    rt_group_join(&g);
}

static uint64_t
run(uint64_t seed)
{
    struct sim_options o = {
        .seed = seed, .lossy = seed % 4 != 0, .max_delay_us = seed % 3 == 0 ? 5000 : 200};
    struct sim *s = sim_new(&o);
    struct load l = {.world = 0};
    struct errbuf eb = {0};
    uint64_t cut = seed, hash;

    for (unsigned i = 0; i < WRITERS; i++)
        l.writers[i].number = i;
    for (; l.world < WORLDS; l.world++) {
        bool last = l.world + 1 == WORLDS;
        enum err rc;

        cut = cut * 6364136223846793005u + 1442695040888963407u;
        sim_cut_at(s, last ? 0 : 1 + (cut >> 33) % 150);
        rc = sim_run_world(s, live, &l, &eb);
        CHECK(rc == (sim_was_cut(s) ? ERR_CANCELLED : ERR_OK));
        CHECK(!last || !sim_was_cut(s));
    }
    hash = sim_trace_hash(s);
    sim_free(&s);
    return hash;
}

int
main(int argc, char **argv)
{
    return sim_main(argc, argv, run);
}
