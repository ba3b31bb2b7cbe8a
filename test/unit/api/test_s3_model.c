/* The S3 API against a plain model of it: random interleavings of puts, conditions, copies, multipart uploads, versions,
 * tags and lists, sent as requests to a node in the simulator, with restarts in between. Every answer must be the
 * model's: status, ETag, version id, metadata, tags, bytes, and every list page by page. Protects V4, and D1 for what
 * versions and metadata records do.
 *
 * FOREBAY_SEED says which (one and the same without it; `make soak` takes others), FOREBAY_OPS how many operations (100,000).
 */
#include "base/log.h"
#include "rt/sim.h"
#include "unit/api/s3_model.h"

#define SEED      20261122u
#define WORLD_OPS 5000 /* then the node is restarted */

struct run {
    struct model *model;
    uint64_t ops;
};

static void
one_world(void *arg)
{
    struct run *r = arg;
    struct site s = {.path = "/disk", .epoch = r->model->epoch++};

    if (site_open(&s) != ERR_OK) {
        CHECK_STR(s.eb.text, "");
        abort();
    }
    r->model->site = &s;
    model_prepare(r->model);
    for (uint64_t i = 0; i < r->ops; i++)
        model_step(r->model);
    model_look_at_all(r->model);
    site_close(&s);
}

static void
test_random_operations_agree_with_the_model(void)
{
    const char *seed_text = getenv("FOREBAY_SEED"), *ops_text = getenv("FOREBAY_OPS");
    uint64_t seed = seed_text != NULL ? strtoull(seed_text, NULL, 10) : SEED;
    uint64_t ops = ops_text != NULL ? strtoull(ops_text, NULL, 10) : 100000;
    struct sim_options o = {.seed = seed, .calm = true, .max_delay_us = 10};
    struct sim *sim = sim_new(&o);
    struct model *m = model_new(seed);
    struct errbuf eb = {{0}};

    printf("seed %llu, %llu operations\n", (unsigned long long)seed,
           (unsigned long long)ops);
    fflush(stdout);
    while (ops > 0) {
        struct run r = {m, MIN(ops, (uint64_t)WORLD_OPS)};

        REQUIRE(sim_run_world(sim, one_world, &r, &eb) == ERR_OK);
        ops -= r.ops;
    }
    model_say(m);
    model_free(m);
    sim_free(&sim);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_random_operations_agree_with_the_model);
    return check_done();
}
