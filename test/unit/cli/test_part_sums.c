/* part_sums and claims: an ETag of parts from bytes that come in any order, and a byte that is wrong; names that one run makes. */
#include "cli/part_sums.h"

#include <stdlib.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "check.h"
#include "cli/claims.h"
#include "wire/etag.h"

#define SIZE 1000003u
#define PART 70001u

struct came {
    bool block[1000]; /* of a KiB */
};

static uint64_t
there(const void *arg, uint64_t at, uint64_t end)
{
    const struct came *c = arg;
    uint64_t to = at;

    while (to < end && c->block[to / 1024])
        to = (to / 1024 + 1) * 1024;
    return MIN(to, end) - at;
}

static void
etag_of(const unsigned char *bytes, unsigned char out[16])
{
    struct etag_multipart all;
    unsigned char md5[DIGEST_MAX];
    char text[ETAG_TEXT_MAX];

    etag_multipart_init(&all);
    for (size_t at = 0; at < SIZE; at += PART) {
        digest_oneshot(DIGEST_MD5, bytes + at, MIN(PART, SIZE - at), md5);
        etag_multipart_add(&all, md5);
    }
    etag_multipart_end(&all, md5, text);
    memcpy(out, md5, 16);
}

static void
run_ready(struct part_sums *p, struct files_part *file, const struct came *c)
{
    struct part_lane lanes[PART_SUMS_LANES];
    struct errbuf eb = {{0}};
    unsigned n;

    while ((n = part_sums_next(p, there, c, lanes)) > 0)
        REQUIRE(part_sums_run(p, file, lanes, n, &eb) == ERR_OK);
}

static void
test_bytes_in_any_order(void)
{
    char name[] = "/tmp/fb-sums-XXXXXX";
    unsigned char *bytes = xmalloc(SIZE), right[16];
    struct files_part file = {.file = {.fd = mkstemp(name)}, .dir = -1};
    struct came *c = xcalloc(1, sizeof *c);
    struct part_sums p;

    REQUIRE(file.file.fd >= 0);
    for (size_t i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 2654435761u >> 13);
    etag_of(bytes, right);
    REQUIRE(write(file.file.fd, bytes, SIZE) == (ssize_t)SIZE);
    for (int wrong = 0; wrong < 2; wrong++) {
        part_sums_init(&p, SIZE, PART);
        memset(c, 0, sizeof *c);
        run_ready(&p, &file, c);
        CHECK(!part_sums_done(&p) && p.first == 0);
        for (size_t i = 0; i <= SIZE / 1024;
             i++) { /* 389 has no factor of the count: each comes once */
            c->block[i * 389 % (SIZE / 1024 + 1)] = true;
            if (i % 50 == 0)
                run_ready(&p, &file, c);
        }
        run_ready(&p, &file, c);
        CHECK(part_sums_done(&p));
        CHECK(part_sums_match(&p, right) == (wrong == 0));
        part_sums_fini(&p);
        bytes[700000] ^= 1;
        REQUIRE(pwrite(file.file.fd, bytes + 700000, 1, 700000) == 1);
    }
    close(file.file.fd);
    unlink(name);
    free(bytes);
    free(c);
}

/* A file that is shorter than what is said to be there. */
static void
test_bytes_that_are_gone(void)
{
    char name[] = "/tmp/fb-sums-XXXXXX";
    struct files_part file = {.file = {.fd = mkstemp(name)}, .dir = -1};
    struct part_lane lane = {0, 100};
    struct errbuf eb = {{0}};
    struct part_sums p;

    REQUIRE(file.file.fd >= 0);
    part_sums_init(&p, SIZE, PART);
    CHECK(part_sums_run(&p, &file, &lane, 1, &eb) == ERR_IO && eb.text[0] != '\0');
    part_sums_fini(&p);
    part_sums_fini(&p);
    close(file.file.fd);
    unlink(name);
}

static void
test_claims(void)
{
    struct claims exact = {0}, folding = {.folds = true};
    char name[32];

    CHECK(!claims_has(&exact, SPAN("a")));
    CHECK(claims_take(&exact, SPAN("a"), SPAN("1")) == CLAIM_NEW);
    CHECK(claims_take(&exact, SPAN("A"), SPAN("2")) == CLAIM_NEW);
    CHECK(claims_take(&exact, SPAN("a"), SPAN("1")) == CLAIM_AGAIN);
    CHECK(claims_take(&exact, SPAN("a"), SPAN("3")) == CLAIM_TAKEN);
    CHECK(claims_take(&folding, SPAN("Dir/\xc3\x84rger"), SPAN("1")) == CLAIM_NEW);
    CHECK(claims_take(&folding, SPAN("dir/\xc3\xa4RGER"), SPAN("2")) == CLAIM_TAKEN);
    CHECK(claims_has(&folding, SPAN("DIR/\xc3\xa4rger")));
    CHECK(claims_take(&folding, SPAN("\xff\xc3"), SPAN("3")) == CLAIM_NEW); /* no UTF-8 */
    CHECK(claims_take(&folding, SPAN("\xff\xc3"), SPAN("3")) == CLAIM_AGAIN);
    for (unsigned i = 0; i < 5000; i++) { /* it grows */
        snprintf(name, sizeof name, "N%u", i);
        REQUIRE(claims_take(&folding, span_of(name), SPAN("4")) == CLAIM_NEW);
    }
    CHECK(claims_has(&folding, SPAN("n4999")) && !claims_has(&folding, SPAN("n5000")));
    CHECK(claims_has(&folding, SPAN("dir/\xc3\xa4rger")));
    claims_fini(&exact);
    claims_fini(&folding);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_bytes_in_any_order);
    RUN(test_bytes_that_are_gone);
    RUN(test_claims);
    return check_done();
}
