/* A table of machines, and what the options come to on each. docs/sizing.md shows some of these rows. */
#include "base/mem.h"
#include "check.h"
#include "node/fit.h"

static const struct {
    const char *name;
    uint64_t memory;
    unsigned cpus, disks;
    /* wanted */
    uint64_t block_cache, buffers; /* at least, at most 1 % more */
    unsigned requests, workers, backend;
} machines[] = {
    {"a small virtual machine", MIB(512), 1, 1, MIB(140), MIB(107), 2289, 8, 64},
    {"2 cores, 4 GiB", GIB(4), 2, 1, MIB(2048), MIB(256), 4096, 8, 64},
    {"8 cores, 32 GiB, 4 disks", GIB(32), 8, 4, GIB(16), MIB(256), 4096, 8, 64},
    {"32 cores, 256 GiB, 12 disks", GIB(256), 32, 12, GIB(128), GIB(1), 4096, 24, 32},
    {"128 cores, 1 TiB, 24 disks", GIB(1024), 128, 24, GIB(512), GIB(4), 8192, 64, 16},
};

static struct node_options
automatic(unsigned disks)
{
    return (struct node_options){.dir_count = disks,
                                 .block_cache_bytes = NODE_AUTO,
                                 .memtable_bytes = MIB(64),
                                 .rt.iobuf_bytes = NODE_AUTO};
}

/* All that has a size, and what clients may take. */
static uint64_t
all_of(const struct node_options *o, const struct node_fitted *f)
{
    return MIB(32) + o->rt.iobuf_bytes + o->block_cache_bytes / 8 * 9 +
           2 * o->dir_count * o->memtable_bytes + f->clients;
}

static void
test_machines(void)
{
    for (unsigned i = 0; i < ARRAY_LEN(machines); i++) {
        struct node_options o = automatic(machines[i].disks);
        struct node_machine m = {machines[i].memory, machines[i].cpus};
        struct node_fitted f;

        node_fit(&o, &m, &f);
        fprintf(stderr,
                "%-28s block cache %llu MiB, buffers %llu MiB, clients %llu MiB\n",
                machines[i].name, (unsigned long long)(o.block_cache_bytes >> 20),
                (unsigned long long)(o.rt.iobuf_bytes >> 20),
                (unsigned long long)(f.clients >> 20));
        CHECK(f.cut == (i == 0)); /* a memtable of 64 MiB does not fit there */
        CHECK(!f.low && !f.block_cache_fixed);
        CHECK(o.block_cache_bytes <= m.memory / 2);
        CHECK(o.block_cache_bytes >= machines[i].block_cache * 80 / 100);
        CHECK(o.rt.iobuf_bytes >= machines[i].buffers * 98 / 100);
        CHECK(o.rt.iobuf_bytes < machines[i].buffers + MIB(1));
        CHECK(o.http.requests_max >= machines[i].requests * 98 / 100);
        CHECK(o.http.requests_max <= machines[i].requests);
        CHECK_U64(o.rt.workers, machines[i].workers);
        CHECK_U64(o.backend.connections, machines[i].backend);
        CHECK(all_of(&o, &f) <= f.limit);
        CHECK(f.clients >= f.limit / 8);
        CHECK(o.index_resident_bytes * machines[i].disks + o.block_cache_bytes <=
              m.memory);
    }
}

/* What an option says holds as it is, if it fits. */
static void
test_options_that_are_set(void)
{
    struct node_options o = automatic(1);
    struct node_machine m = {GIB(4), 2};
    struct node_fitted f;

    o.block_cache_bytes = MIB(300);
    o.rt.iobuf_bytes = MIB(64);
    o.rt.workers = 3;
    o.http.requests_max = 100;
    o.http.waiting_max = 7;
    o.backend.connections = 5;
    node_fit(&o, &m, &f);
    CHECK(f.block_cache_fixed && !f.cut);
    CHECK_U64(o.block_cache_bytes, MIB(300));
    CHECK_U64(o.rt.iobuf_bytes, MIB(64));
    CHECK_U64(o.rt.workers, 3);
    CHECK_U64(o.http.requests_max, 100);
    CHECK_U64(o.http.waiting_max, 7);
    CHECK_U64(o.backend.connections, 5);
    o.block_cache_bytes = 0; /* off */
    node_fit(&o, &m, &f);
    CHECK_U64(o.block_cache_bytes, 0);
    CHECK(f.block_cache_fixed && !f.cut);
    o.block_cache_bytes = GIB(100);
    node_fit(&o, &m, &f);
    CHECK(f.cut && o.block_cache_bytes < GIB(4));
    CHECK(all_of(&o, &f) <= f.limit);
}

/* memory.limit stands for the machine. */
static void
test_a_limit(void)
{
    struct node_options o = automatic(2);
    struct node_machine m = {GIB(1024), 4};
    struct node_fitted f;

    o.memory_limit = GIB(2);
    node_fit(&o, &m, &f);
    CHECK_U64(f.limit, GIB(2));
    CHECK(o.block_cache_bytes <= GIB(1));
    CHECK(all_of(&o, &f) <= f.limit);
    o = automatic(1);
    o.memory_limit = MIB(20); /* too little: as if it were 96 MiB */
    node_fit(&o, &m, &f);
    CHECK(f.low);
    CHECK_U64(f.limit, MIB(96));
    CHECK(o.block_cache_bytes >= MIB(8) && o.block_cache_bytes <= MIB(32));
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_machines);
    RUN(test_options_that_are_set);
    RUN(test_a_limit);
    return check_done();
}
