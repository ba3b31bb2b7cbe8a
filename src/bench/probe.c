#include "bench/probe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "bench/load.h"
#include "bench/spread.h"
#include "rt/file.h"
#include "rt/loop.h"
#include "rt/net.h"

/* ---- loopback ---- */

#define STREAM_PIECE KIB(256)
#define CONNECT_MS   10000u /* before anything is measured: a machine may be busy */

struct sender {
    uint16_t port;
    uint64_t ms;
    enum err rc;
    struct errbuf eb;
};

/* On loop 1. */
static void
send_on(void *arg)
{
    struct sender *s = arg;
    struct deadline end;
    struct stream *stream = NULL;
    char *bytes = xcalloc(1, STREAM_PIECE);

    s->rc = rt_connect("127.0.0.1", s->port, deadline_in_ms(CONNECT_MS), &stream, &s->eb);
    end = deadline_in_ms(s->ms);
    if (s->rc == ERR_OK)
        do
            s->rc = rt_send(stream, bytes, STREAM_PIECE, DEADLINE_NEVER, &s->eb);
        while (s->rc == ERR_OK && !deadline_passed(end));
    rt_stream_close(&stream);
    free(bytes);
}

static void
call_sender(void *arg)
{
    struct sender *s = arg;
    enum err rc = rt_call(rt_loop_count() - 1, send_on, s);

    if (rc != ERR_OK)
        s->rc = rc;
}

static enum err
probe_receive(struct listener *l, double *bytes_s, struct errbuf *eb)
{
    struct stream *stream = NULL;
    char *room = xmalloc(STREAM_PIECE);
    uint64_t began, bytes = 0;
    size_t n = 1;
    enum err rc = rt_accept(l, deadline_in_ms(CONNECT_MS), &stream, eb);

    began = rt_now_ns();
    while (rc == ERR_OK && n > 0) {
        rc = rt_recv(stream, room, STREAM_PIECE, DEADLINE_NEVER, &n, eb);
        bytes += n;
    }
    *bytes_s = (double)bytes / ((double)MAX(rt_now_ns() - began, 1u) / 1e9);
    rt_stream_close(&stream);
    free(room);
    return rc;
}

enum err
probe_loopback(uint64_t ms, double *bytes_s, struct errbuf *eb)
{
    struct sender s = {.ms = ms};
    struct listener *l = NULL;
    struct rt_group g;
    enum err rc = rt_listen("127.0.0.1", 0, NULL, &l, eb);

    if (rc != ERR_OK)
        return rc;
    s.port = rt_listener_port(l);
    rt_group_begin(&g);
    rc = rt_group_start(&g, call_sender, &s);
    if (rc == ERR_OK)
        rc = probe_receive(l, bytes_s, eb);
    rt_listener_close(&l);
    rt_group_join(&g);
    if (rc == ERR_OK && s.rc != ERR_OK) {
        *eb = s.eb;
        rc = s.rc;
    }
    return rc;
}

/* ---- disks ---- */

#define FILES_MAX  256
#define DEPTH_MAX  4
#define NAMES_MAX  20000 /* looked at */
#define FILE_LEAST KIB(64)
#define READ_BYTES MIB(1)
#define READERS    8
#define PAGE       4096u
#define LOOK_EACH  KIB(64) /* zeros at its begin: nothing was written there */

struct probed_disk {
    struct rt_file *files[FILES_MAX]; /* owned */
    uint64_t sizes[FILES_MAX];
    uint32_t count, seen;
    uint64_t bytes; /* read, and not zeros */
    struct deadline end;
    enum err rc;
    struct errbuf eb;
};

struct names {
    char **at;
    size_t count, room;
};

static void
probe_on_name(const char *name, void *arg)
{
    struct names *n = arg;

    if (name[0] == '.' || n->count == NAMES_MAX)
        return;
    if (n->count == n->room) {
        n->room = n->room > 0 ? 2 * n->room : 64;
        n->at = xrealloc(n->at, n->room * sizeof *n->at);
    }
    n->at[n->count++] = xstrdup(name);
}

static void
take_file(struct probed_disk *d, struct rt_dir *dir, const char *name)
{
    struct errbuf eb;
    uint64_t size = 0;
    struct rt_file *f = NULL;

    if (rt_open(dir, name, RT_O_DIRECT, 0, &f, &eb) == ERR_OK && rt_file_is_direct(f) &&
        rt_file_size(f, &size, &eb) == ERR_OK && size >= FILE_LEAST) {
        d->sizes[d->count] = size;
        d->files[d->count++] = f;
        return;
    }
    rt_file_close(&f);
}

static void
probe_collect(struct probed_disk *d, struct rt_dir *dir, unsigned depth)
{
    struct names names = {0};
    struct errbuf eb;

    if (rt_dir_list(dir, probe_on_name, &names, &eb) != ERR_OK)
        d->seen++; /* what came of it is looked at all the same */
    for (size_t i = 0; i < names.count; i++) {
        struct rt_dir *below = NULL;

        if (d->count < FILES_MAX && d->seen++ < NAMES_MAX) {
            if (depth > 0 && rt_dir_open_at(dir, names.at[i], &below, &eb) == ERR_OK)
                probe_collect(d, below, depth - 1);
            else
                take_file(d, dir, names.at[i]);
            rt_dir_close(&below);
        }
        free(names.at[i]);
    }
    free(names.at);
}

static uint64_t
written(const char *at, uint32_t n)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < n; i += (uint32_t)LOOK_EACH) {
        uint32_t len = MIN(n - i, (uint32_t)LOOK_EACH), look = MIN(len, 512u);
        bool zeros = true;

        for (uint32_t k = 0; k < look && zeros; k++)
            zeros = at[i + k] == 0;
        bytes += zeros ? 0 : len;
    }
    return bytes;
}

static void
read_disk(void *arg)
{
    struct probed_disk *d = arg;
    struct iobuf *b = NULL;
    struct errbuf eb;
    enum err rc = iobuf_get(READ_BYTES, &b);

    while (rc == ERR_OK) {
        uint64_t random[2], len, at;
        uint32_t n = 0;
        uint32_t i;

        rt_random(random, sizeof random);
        i = (uint32_t)(random[0] % d->count);
        len = MIN(align_down(d->sizes[i], PAGE), READ_BYTES);
        at = align_down(random[1] % (d->sizes[i] - len + 1), PAGE);
        rc = rt_read(d->files[i], at, b, 0, (uint32_t)len, RT_READ, DEADLINE_NEVER, &n,
                     &eb);
        d->bytes += rc == ERR_OK ? written(b->at, n) : 0;
        if (deadline_passed(d->end)) /* one each, however late they begin */
            break;
    }
    if (rc != ERR_OK && d->rc == ERR_OK) {
        d->rc = rc;
        d->eb = eb;
    }
    iobuf_drop(&b);
}

static void
read_many(struct probed_disk *d, uint64_t ms)
{
    struct rt_group g;
    enum err rc = ERR_OK;

    d->end = deadline_in_ms(ms);
    rt_group_begin(&g);
    for (unsigned i = 0; i < READERS && rc == ERR_OK; i++)
        rc = rt_group_start(&g, read_disk, d);
    rt_group_join(&g);
    d->rc = rc != ERR_OK ? rc : d->rc;
}

enum err
probe_disk(const char *path, uint64_t ms, double *bytes_s, struct errbuf *eb)
{
    struct probed_disk *d = xcalloc(1, sizeof *d);
    struct rt_dir *dir = NULL;
    uint64_t began;
    enum err rc = rt_dir_open(path, &dir, eb);

    if (rc == ERR_OK) {
        probe_collect(d, dir, DEPTH_MAX);
        rt_dir_close(&dir);
        if (d->count == 0)
            rc = err_set(eb, ERR_NOT_FOUND,
                         "\"%s\" has no file of 64 KiB that can be read past the cache",
                         path);
    }
    if (rc == ERR_OK) {
        began = rt_now_ns();
        read_many(d, ms);
        *bytes_s = (double)d->bytes / ((double)MAX(rt_now_ns() - began, 1u) / 1e9);
        rc = d->rc;
        if (rc != ERR_OK)
            *eb = d->eb;
        else if (d->bytes == 0)
            rc = err_set(eb, ERR_NOT_FOUND, "\"%s\" contains only zeros", path);
    }
    for (uint32_t i = 0; i < d->count; i++)
        rt_file_close(&d->files[i]);
    free(d);
    return rc;
}

/* ---- the way to the server ---- */

struct again {
    const struct train_piece *p;
    unsigned concurrency;
    train_fetch *fetch;
    void *arg;
    uint64_t ms;
    double *bytes_s; /* one a loop */
};

static enum err
fetch_again(void *arg, uint64_t number, struct load_sample *out, struct errbuf *eb)
{
    struct again *w = arg;

    (void)number;
    return w->fetch(w->arg, w->p, &out->bytes, eb);
}

static enum err
load_here(void *arg, unsigned i, struct errbuf *eb)
{
    struct again *w = arg;
    struct load_options o = {.concurrency = w->concurrency, .duration_ms = w->ms};
    struct load_result *r = xcalloc(1, sizeof *r);
    enum err rc = load_run(&o, fetch_again, w, r, eb);

    w->bytes_s[i] = (double)r->bytes / MAX(r->seconds, 1e-9);
    free(r);
    return rc;
}

enum err
probe_path(const struct train_piece *p, unsigned concurrency, unsigned loops,
           train_fetch *fetch, void *arg, uint64_t ms, double *bytes_s, struct errbuf *eb)
{
    struct again w = {p, concurrency, fetch, arg, ms, xcalloc(loops, sizeof *w.bytes_s)};
    enum err rc = spread_run(loops, loops, load_here, &w, eb);

    *bytes_s = 0;
    for (unsigned i = 0; i < loops; i++)
        *bytes_s += w.bytes_s[i];
    free(w.bytes_s);
    return rc;
}
