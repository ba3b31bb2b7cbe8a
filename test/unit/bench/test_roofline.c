/* The verdict names the resource that was used up; the search finds the largest number that passes; profiles are as the field has
 * them; the picture is XML. */
#include "bench/roofline.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "bench/models.h"
#include "bench/search.h"
#include "check.h"

/* ---- the verdict ---- */

static struct roofline
plain(double au)
{
    struct roofline r = {.profile = "retinanet-b200",
                         .sample_bytes = 322957,
                         .demand = 505,
                         .floor = 0.85,
                         .reported = {10, 5050 * au, au, au >= 0.85}};

    for (enum ceiling c = 0; c < CEILINGS_; c++)
        roofline_set(&r, c, 50000, "measured");
    roofline_add_run(&r, &r.reported);
    return r;
}

static void
check_says(const struct roofline *r, enum ceiling want, const char *says)
{
    struct buf text;

    buf_init(&text, KIB(8));
    CHECK(roofline_limit(r) == want);
    roofline_verdict(r, &text);
    buf_putc(&text, '\0');
    CHECK_SAYS(text.at, says);
    buf_fini(&text);
}

static void
test_each_resource_is_named(void)
{
    static const char *const says[CEILINGS_] = {
        "The network limits",       "The path to the server",
        "The server's disks limit", "The server's CPU limits",
        "The CPU of this client",   "client and server share",
        "stands behind the server", "Too few concurrent requests"};

    for (enum ceiling c = 0; c < CEILINGS_; c++) {
        struct roofline r = plain(0.7);

        roofline_set(&r, c, 3600, "measured");
        check_says(&r, c, says[c]);
        check_says(&r, c, "98 % of 3600");
        check_says(&r, c, "the next ceiling is");
    }
}

static void
test_nothing_limits(void)
{
    struct roofline r = plain(0.995);

    roofline_set(&r, CEILING_SERVER_CPU, 5100, "nearly all");
    check_says(&r, CEILINGS_, "Storage does not limit this run: 10 accelerators");
    r = plain(0.8);
    check_says(&r, CEILINGS_, "No resource is used up");
}

/* The report names a resource before the path through it, and that before the number of requests. */
static void
test_the_cause_is_told_not_what_follows(void)
{
    struct roofline r = plain(0.7);

    roofline_set(&r, CEILING_IN_FLIGHT, 3535, "always full where something else is slow");
    roofline_set(&r, CEILING_PATH, 3600, "as slow as the CPU in it");
    roofline_set(&r, CEILING_SERVER_CPU, 3700, "measured");
    check_says(&r, CEILING_SERVER_CPU, "The server's CPU limits");
    roofline_set(&r, CEILING_SERVER_CPU, 9000, "measured");
    check_says(&r, CEILING_PATH, "The path to the server");
}

static void
test_others_are_not_us(void)
{
    struct roofline r = plain(0.7);

    roofline_set(&r, CEILING_MACHINE_CPU, 3540, "busy");
    r.others = 0.9;
    check_says(&r, CEILING_MACHINE_CPU, "Other work on this machine limits");
}

static void
test_what_is_not_known_is_said(void)
{
    struct roofline r = plain(0.7);
    struct buf text;

    roofline_set(&r, CEILING_DISK, 0, "not measured: %s", "no such folder");
    buf_init(&text, KIB(8));
    roofline_text(&r, &text);
    buf_putc(&text, '\0');
    CHECK_SAYS(text.at, "not measured: no such folder");
    buf_fini(&text);
}

static unsigned
count_of(const char *text, const char *what)
{
    unsigned n = 0;

    for (const char *at = strstr(text, what); at != NULL; at = strstr(at + 1, what))
        n++;
    return n;
}

/* No line of text stands below the picture. */
static void
check_inside(const char *picture)
{
    const char *at = strstr(picture, "viewBox=\"0 0 ");
    unsigned width = 0, height = 0;

    CHECK(at != NULL && sscanf(at, "viewBox=\"0 0 %u %u", &width, &height) == 2);
    for (at = strstr(picture, " y=\""); at != NULL; at = strstr(at + 1, " y=\""))
        CHECK(strtod(at + 4, NULL) + 4 < height);
}

static void
test_the_picture(void)
{
    struct roofline r = plain(0.7);
    struct buf text;

    roofline_add_run(&r, &(struct roofline_run){4, 2020, 1, true});
    roofline_set(&r, CEILING_DISK, 0, "not known");
    buf_init(&text, MIB(1));
    roofline_svg(&r, &text);
    buf_putc(&text, '\0');
    CHECK(!text.full);
    CHECK(strncmp(text.at, "<svg xmlns=", 11) == 0);
    CHECK_U64(count_of(text.at, "<circle"), 2 + 2); /* two runs, two of the legend */
    check_inside(text.at);
    CHECK_U64(count_of(text.at, "class=\"ceiling\"") +
                  count_of(text.at, "class=\"limit\""),
              CEILINGS_ - 1);
    CHECK_U64(count_of(text.at, "\"nan"), 0);
    CHECK_U64(count_of(text.at, "\"inf"), 0);
    CHECK_U64(count_of(text.at, "<text"), count_of(text.at, "</text>"));
    buf_fini(&text);
}

/* ---- the search ---- */

/* Tries until it is over; how many there were in *tries. */
static unsigned
search_for(unsigned truth, unsigned most, unsigned first, bool hopes, unsigned *tries)
{
    struct search s;
    unsigned n;

    *tries = 0;
    search_init(&s, most, first);
    while ((n = search_next(&s)) > 0 && ++*tries < 100) {
        CHECK(n >= 1 && n <= most);
        search_told(&s, n, n <= truth, hopes && n > truth ? truth : 0);
    }
    return s.good;
}

static void
test_the_search_finds_it(void)
{
    unsigned tries;

    for (unsigned most = 1; most <= 70; most++)
        for (unsigned truth = 0; truth <= most; truth++) {
            CHECK_U64(search_for(truth, most, 1, false, &tries), truth);
            CHECK(tries <= 15);
            CHECK_U64(search_for(truth, most, 1, true, &tries), truth);
            CHECK(tries <= 10);
            for (unsigned first = 2; first <= most; first++) {
                CHECK_U64(search_for(truth, most, first, true, &tries), truth);
                CHECK(tries <= (first == truth               ? 2
                                : first > truth && truth > 0 ? 3
                                                             : 10));
            }
        }
}

/* ---- profiles ---- */

static void
test_profiles(void)
{
    struct profile p;
    struct errbuf eb = {{0}};
    double sum = 0;

    CHECK(profile_find("retinanet-b200", &p, &eb) == ERR_OK);
    CHECK(p.batch == 24 && p.sample_bytes == 322957 && p.floor == 0.85);
    CHECK((int)(profile_samples_s(&p) + 0.5) == 505);
    CHECK_U64(profile_samples_in(&p, 10), 1);
    CHECK_U64(profile_file_bytes(&p, 5), 322957);
    CHECK(profile_find("resnet50-h100", &p, &eb) == ERR_OK);
    CHECK((int)(profile_samples_s(&p) + 0.5) == 1786);
    CHECK_U64(profile_samples_in(&p, profile_file_bytes(&p, 0)), 1251);
    CHECK(profile_find("unet3d-h100", &p, &eb) == ERR_OK);
    for (unsigned i = 0; i < 1000; i++)
        sum += (double)profile_file_bytes(&p, i) / 1000;
    CHECK(sum > 140e6 && sum < 153e6);
    CHECK(profile_find("nonsense", &p, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "retinanet-b200");
    CHECK_SAYS(eb.text, "dlrm-b200");
    CHECK(profile_find("dlrm-b200", &p, &eb) == ERR_OK);
    CHECK(p.columns > 0 && p.samples_per_file % p.batch == 0);
    CHECK((int)(profile_samples_s(&p) * (double)profile_read_bytes(&p) / 1e9 + 0.5) == 7);
}

/* What is printed is read back as the same; what is wrong is said with its line. */
static void
test_models_of_a_file(void)
{
    static const struct {
        const char *text, *name, *says;
    } wrong[] = {
        {"batch = 3\n", "a", "stands in no [MODEL]"},
        {"[a]\nbatch = 3\nsample = 10\n", "a", "[a] wants sample, batch and step_ms"},
        {"[a]\n\nbatch = 0\n", "a", "f.toml:3: a.batch: expected 1 to 1e+06"},
        {"[a]\nstep_ms = \"4x\"\n", "a", "\"4x\" is no number"},
        {"[a]\nstep_ms = \"nan\"\n", "a", "expected 0.01 to 600000"},
        {"[a]\nsample = \"4 parsecs\"\n", "a", "a.sample"},
        {"[a]\nfloor = true\n", "a", "a number is wanted"},
        {"[a]\nsteps = 1\n", "a", "sample, spread, per_file, batch, step_ms, floor"},
        {"[a]\nbatch = 1\n[b]\nbatch = 1\n", NULL,
         "2 models: --model says which of a, b"},
        {"[a]\nbatch = 1\n[b]\nbatch = 1\n", "c", "there are a, b"},
        {"", "c", "there are none"},
    };
    struct errbuf eb = {{0}};
    struct profile p;
    struct buf text;

    buf_init(&text, 1u << 16);
    for (unsigned i = 0; profile_at(i) != NULL; i++)
        models_write(profile_at(i), &text);
    for (unsigned i = 0; profile_at(i) != NULL; i++) {
        const struct profile *want = profile_at(i);

        CHECK(models_find("f.toml", buf_span(&text), want->name, &p, &eb) == ERR_OK);
        CHECK_STR(p.name, want->name);
        CHECK(p.sample_bytes == want->sample_bytes &&
              p.spread_bytes == want->spread_bytes);
        CHECK(p.samples_per_file == want->samples_per_file && p.batch == want->batch);
        CHECK(p.step_ns == want->step_ns && p.floor == want->floor);
    }
    buf_fini(&text);
    CHECK(models_find("f.toml",
                      SPAN("[mine]\nsample = \"150KB\"\nbatch = 64\nstep_ms = \"0.5\""),
                      NULL, &p, &eb) == ERR_OK);
    CHECK(p.sample_bytes == 150000 && p.step_ns == 500000 && p.floor == 0.9 &&
          p.samples_per_file == 1);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        CHECK(models_find("f.toml", span_of(wrong[i].text), wrong[i].name, &p, &eb) ==
              ERR_BAD_REQUEST);
        CHECK_SAYS(eb.text, wrong[i].says);
    }
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_each_resource_is_named);
    RUN(test_nothing_limits);
    RUN(test_the_cause_is_told_not_what_follows);
    RUN(test_others_are_not_us);
    RUN(test_what_is_not_known_is_said);
    RUN(test_the_picture);
    RUN(test_the_search_finds_it);
    RUN(test_profiles);
    RUN(test_models_of_a_file);
    return check_done();
}
