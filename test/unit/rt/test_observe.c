/* The observer of a directory receives every operation below it, with its error and its time, on each engine; what was
 * shut out fails at once; the observer lives as long as the last file. Protects F2, F3. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "engines.h"
#include "rt/file.h"
#include "rt/test_hooks.h"

struct seen {
    struct rt_observer o;
    unsigned of[RT_IOS_], errors[RT_IOS_];
    uint64_t longest_ns;
    uint32_t most; /* at once */
    int last_error;
    bool freed;
};

static void
on_io(struct rt_observer *o, const struct rt_io_done *d)
{
    struct seen *s = (struct seen *)o;

    s->of[d->kind]++;
    s->errors[d->kind] += d->error != 0;
    if (d->error != 0)
        s->last_error = d->error;
    s->most = d->beside > s->most ? d->beside : s->most;
    s->longest_ns = d->took_ns > s->longest_ns ? d->took_ns : s->longest_ns;
}

static void
on_free(struct rt_observer *o)
{
    ((struct seen *)o)->freed = true;
}

static struct rt_dir *
open_observed(struct seen *s)
{
    struct rt_dir *root, *d = NULL;
    enum err rc = rt_dir_open("/tmp", &root, NULL);
    char name[40];

    snprintf(name, sizeof name, "fb-observe-%d", (int)getpid());
    CHECK(rc == ERR_OK);
    rc = rt_dir_make(root, name, 0700, NULL);
    CHECK(rc == ERR_OK || rc == ERR_EXISTS);
    *s = (struct seen){.o = {.on_io = on_io, .free = on_free, .refs = 1}};
    rt_dir_observe(root, &s->o);
    CHECK(rt_dir_open_at(root, name, &d, NULL) == ERR_OK);
    rt_dir_close(&root);
    return d;
}

static void
remove_all(struct rt_dir **d)
{
    char name[40];
    struct rt_dir *root;

    snprintf(name, sizeof name, "fb-observe-%d", (int)getpid());
    rt_dir_close(d);
    CHECK(rt_dir_open("/tmp", &root, NULL) == ERR_OK);
    CHECK(rt_dir_unlink(root, name, NULL) == ERR_OK);
    rt_dir_close(&root);
}

static enum err
use(struct rt_dir *d, struct rt_file **f, struct errbuf *eb)
{
    struct iobuf *b;
    uint32_t n;
    enum err rc = rt_open(d, "f", RT_O_WRITE | RT_O_CREATE, 0600, f, eb);

    CHECK(iobuf_get(4096, &b) == ERR_OK);
    memset(b->at, 7, 4096);
    if (rc == ERR_OK)
        rc = rt_write(*f, 0, b, 0, 4096, RT_WRITE, eb);
    if (rc == ERR_OK)
        rc = rt_sync(*f, eb);
    if (rc == ERR_OK)
        rc = rt_read(*f, 0, b, 0, 4096, RT_READ, DEADLINE_NEVER, &n, eb);
    iobuf_drop(&b);
    return rc;
}

static void
all_kinds_fiber(void *arg)
{
    struct seen s;
    struct rt_dir *d = open_observed(&s);
    struct rt_file *f = NULL;
    struct rt_observer *mine = &s.o;
    bool real = rt_engine_now() != RT_SIM;

    (void)arg;
    CHECK(use(d, &f, NULL) == ERR_OK);
    CHECK(rt_fallocate(f, 0, 8192, NULL) == ERR_OK);
    CHECK(rt_dir_sync(d, NULL) == ERR_OK);
    CHECK_U64(s.of[RT_IO_WRITE], 1);
    CHECK_U64(s.of[RT_IO_READ], 1);
    CHECK_U64(s.of[RT_IO_SPACE], 1);
    CHECK_U64(s.of[RT_IO_SYNC], real ? 2 : 1); /* a model's names can't fail */
    CHECK(!real || s.of[RT_IO_NAME] == 2);
    CHECK(s.longest_ns > 0);
    CHECK_U64(s.errors[RT_IO_WRITE] + s.errors[RT_IO_READ] + s.errors[RT_IO_NAME], 0);
    CHECK_U64(s.o.in_flight, 0);
    CHECK(rt_dir_unlink(d, "f", NULL) == ERR_OK);
    remove_all(&d);
    rt_observer_drop(&mine);
    CHECK(!s.freed); /* the file is still open */
    rt_file_close(&f);
    CHECK(s.freed);
}
CASE(test_every_kind_is_told, 1, all_kinds_fiber)

static void
shut_fiber(void *arg)
{
    struct seen s;
    struct rt_dir *d = open_observed(&s);
    struct rt_file *f = NULL, *other = NULL;
    struct errbuf eb = {0};

    (void)arg;
    CHECK(use(d, &f, NULL) == ERR_OK);
    s.o.shut = true;
    memset(s.of, 0, sizeof s.of);
    CHECK(rt_sync(f, &eb) == ERR_IO);
    CHECK_SAYS(eb.text, "its disk was taken out of service");
    CHECK(rt_open(d, "f", 0, 0, &other, &eb) == ERR_IO && other == NULL);
    CHECK(rt_dir_unlink(d, "f", &eb) == ERR_IO);
    for (unsigned i = 0; i < RT_IOS_; i++)
        CHECK_U64(s.of[i], 0); /* the kernel was not asked */
    s.o.shut = false;
    CHECK(rt_dir_unlink(d, "f", NULL) == ERR_OK);
    rt_file_close(&f);
    remove_all(&d);
}
CASE(test_what_is_shut_out_fails_at_once, 1, shut_fiber)

#ifdef FB_TEST_HOOKS
/* Each operation of a small piece of work fails, one run for each. */
static void
faults_fiber(void *arg)
{
    static const enum rt_io kinds[] = {RT_IO_NAME, RT_IO_WRITE, RT_IO_SYNC, RT_IO_READ};
    struct rt_test_io *t = rt_test_io();

    (void)arg;
    for (unsigned i = 0; i < 4; i++) {
        struct seen s;
        struct rt_dir *d = open_observed(&s);
        struct rt_file *f = NULL;
        struct errbuf eb = {0};
        bool real = rt_engine_now() != RT_SIM || kinds[i] != RT_IO_NAME;

        t->seen = 0;
        t->count = 1;
        t->error = EIO;
        t->kinds = 1u << kinds[i];
        CHECK(use(d, &f, &eb) == (real ? ERR_IO : ERR_OK));
        t->kinds = 0;
        CHECK_U64(s.errors[kinds[i]], real ? 1 : 0);
        CHECK(s.last_error == (real ? EIO : 0));
        rt_file_close(&f);
        if (rt_dir_unlink(d, "f", NULL) != ERR_OK)
            CHECK(kinds[i] == RT_IO_NAME);
        remove_all(&d);
    }
}
CASE(test_an_error_is_told_as_it_came, 1, faults_fiber)

static void
slow_fiber(void *arg)
{
    struct seen s;
    struct rt_dir *d = open_observed(&s);
    struct rt_file *f = NULL;
    struct rt_test_io *t = rt_test_io();

    (void)arg;
    t->delay_us = 20000;
    t->kinds = 1u << RT_IO_READ;
    CHECK(use(d, &f, NULL) == ERR_OK);
    t->kinds = 0;
    t->delay_us = 0;
    CHECK(s.longest_ns >= 20000000);
    rt_file_close(&f);
    CHECK(rt_dir_unlink(d, "f", NULL) == ERR_OK);
    remove_all(&d);
}
CASE(test_a_slow_disk_is_told_by_its_time, 1, slow_fiber)
#endif

/* ---- how many at once ---- */

#define READERS 40u
#define LARGE   (128u << 10)

struct read {
    struct rt_file *file;
    uint32_t len;
};

static void
read_one(void *arg)
{
    const struct read *r = arg;
    struct iobuf *b;
    uint32_t n;

    CHECK(iobuf_get(r->len, &b) == ERR_OK);
    CHECK(rt_read(r->file, 0, b, 0, r->len, RT_READ, DEADLINE_NEVER, &n, NULL) ==
              ERR_OK &&
          n == r->len);
    iobuf_drop(&b);
}

static void
start_reads(struct rt_group *g, struct read *r)
{
    for (unsigned i = 0; i < READERS; i++)
        CHECK(rt_group_start(g, read_one, r) == ERR_OK);
}

static void
crowd(void *arg)
{
    struct seen s;
    struct rt_dir *d = open_observed(&s);
    struct read small = {.len = 4096}, large = {.len = LARGE};
    struct rt_observer *o = &s.o;
    struct rt_group g;
    struct iobuf *b;

    (void)arg;
    CHECK(rt_open(d, "f", RT_O_WRITE | RT_O_CREATE, 0600, &small.file, NULL) == ERR_OK);
    large.file = small.file;
    CHECK(iobuf_get(LARGE, &b) == ERR_OK);
    memset(b->at, 'x', LARGE);
    CHECK(rt_write(small.file, 0, b, 0, LARGE, RT_WRITE, NULL) == ERR_OK);
    iobuf_drop(&b);
    rt_group_begin(&g);
    start_reads(&g, &small);
    rt_group_join(&g);
    CHECK_U64(s.most, 32);
    s.most = 0;
    rt_group_begin(&g);
    start_reads(&g, &large);
    rt_group_join(&g);
    CHECK_U64(s.most, 16);
    rt_group_begin(&g); /* neither waits for the other's places */
    start_reads(&g, &large);
    start_reads(&g, &small);
    rt_group_join(&g);
    CHECK_U64(s.most, 48);
    CHECK(rt_dir_unlink(d, "f", NULL) == ERR_OK);
    rt_file_close(&small.file);
    remove_all(&d);
    rt_observer_drop(&o);
}
CASE(test_large_reads_have_places_of_their_own, 1, crowd)

#define WRITERS 40u

struct write {
    struct rt_file *file;
    enum rt_class class;
    uint64_t next; /* its own place each */
};

static void
write_one(void *arg)
{
    struct write *w = arg;
    uint64_t at = LARGE * w->next++;
    struct iobuf *b;

    CHECK(iobuf_get(LARGE, &b) == ERR_OK);
    memset(b->at, 'x', LARGE);
    CHECK(rt_write(w->file, at, b, 0, LARGE, w->class, NULL) == ERR_OK);
    iobuf_drop(&b);
}

static void
start_writes(struct rt_group *g, struct write *w)
{
    for (unsigned i = 0; i < WRITERS; i++)
        CHECK(rt_group_start(g, write_one, w) == ERR_OK);
}

/* Bodies leave room in the disk for what is small, and never take its places. */
static void
bodies(void *arg)
{
    struct seen s;
    struct rt_dir *d = open_observed(&s);
    struct write body = {.class = RT_BODY}, other = {.class = RT_WRITE};
    struct rt_observer *o = &s.o;
    struct rt_group g;

    (void)arg;
    CHECK(rt_open(d, "f", RT_O_WRITE | RT_O_CREATE, 0600, &body.file, NULL) == ERR_OK);
    other.file = body.file;
    rt_group_begin(&g);
    start_writes(&g, &body);
    rt_group_join(&g);
    CHECK_U64(s.most, 8);
    rt_group_begin(&g);
    start_writes(&g, &body);
    start_writes(&g, &other);
    rt_group_join(&g);
    CHECK_U64(s.most, 40);
    CHECK_U64(s.of[RT_IO_WRITE], 3 * WRITERS);
    CHECK(rt_dir_unlink(d, "f", NULL) == ERR_OK);
    rt_file_close(&body.file);
    remove_all(&d);
    rt_observer_drop(&o);
}
CASE(test_bodies_have_few_places_of_their_own, 1, bodies)

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_every_kind_is_told);
    RUN(test_what_is_shut_out_fails_at_once);
#ifdef FB_TEST_HOOKS
    RUN(test_an_error_is_told_as_it_came);
    RUN(test_a_slow_disk_is_told_by_its_time);
#endif
    RUN(test_large_reads_have_places_of_their_own);
    RUN(test_bodies_have_few_places_of_their_own);
    return check_done();
}
