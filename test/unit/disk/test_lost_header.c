/* Bodies of the class cached are not synced before their record: a power cut may leave payload, sums and record, and lose
 * the header of the place, its own or one in front of it. Such a place is given out again, so nothing that stands there
 * may be believed; what was lost is fetched anew, and no damage. Found by seeds of sim_disk_space. Protects I1, I4. */
#include "world.h"

#include "base/metrics.h"
#include "disk/member.h"

#define LARGE  ((300u << 10) + 77)
#define PAGE   4096u
#define BODIES 4u
#define MORE   3u

struct lost {
    unsigned body; /* whose header */
    bool open; /* the one that it had while it was written is there, instead of nothing */
    unsigned gone; /* a bit for each body that must be */
};

static char *bodies[BODIES + MORE];

static struct disk *
open_disk(void)
{
    struct disk_options o = world_options();
    struct disk *d = NULL;
    struct errbuf eb = {0};

    CHECK(disk_open(world_path, &o, &d, &eb) == ERR_OK);
    return d;
}

static void
put(struct disk *d, unsigned i, struct row *row)
{
    char key[8];

    snprintf(key, sizeof key, "k%u", i);
    CHECK(world_put_class(d, DISK_CACHED, key, bodies[i], LARGE, true, NULL, row) ==
          ERR_OK);
}

static enum err
get(struct disk *d, unsigned i)
{
    char key[8];

    snprintf(key, sizeof key, "k%u", i);
    return world_get(d, key, bodies[i], LARGE, 0, LARGE);
}

/* What the header said before the body was sealed. */
static void
make_open(char *page)
{
    struct member m, open;
    struct buf b;
    size_t need;

    REQUIRE(member_parse((struct span){page, PAGE}, &m, &need, NULL) == MEMBER_GOOD);
    open = (struct member){.kind = MEMBER_OPEN,
                           .segment = m.segment,
                           .generation = m.generation,
                           .epoch = m.epoch,
                           .offset = m.offset,
                           .payload = m.span - PAGE,
                           .span = m.span,
                           .bucket = m.bucket,
                           .birth_name = m.birth_name,
                           .key = m.key,
                           .content = m.content};
    buf_init(&b, PAGE);
    member_encode(&open, PAGE, &b);
    REQUIRE(!b.full && b.len == PAGE);
    memcpy(page, b.at, PAGE);
    buf_fini(&b);
}

static void
lose_header(const struct row *row, bool open_header)
{
    char path[400], page[PAGE];
    int fd;

    snprintf(path, sizeof path, "%s/cached/body-%06u.tar", world_path,
             (unsigned)row->segment);
    fd = open(path, O_RDWR);
    REQUIRE(fd >= 0);
    CHECK(pread(fd, page, PAGE, (off_t)row->offset) == PAGE);
    if (open_header)
        make_open(page);
    else
        memset(page, 0, PAGE);
    CHECK(pwrite(fd, page, PAGE, (off_t)row->offset) == PAGE);
    close(fd);
}

/* The index did not come to know of it either. */
static void
lose_index(void)
{
    char path[400];

    snprintf(path, sizeof path, "%s/index/data.mdb", world_path);
    CHECK(unlink(path) == 0);
}

static void
lose(void *arg)
{
    const struct lost *l = arg;
    int64_t damages = metric_read(M_CHECKSUM_FAILURES, 0);
    struct row rows[BODIES], row;
    struct disk *d = open_disk();

    for (unsigned i = 0; i < BODIES; i++)
        put(d, i, &rows[i]);
    CHECK(rows[0].segment == rows[BODIES - 1].segment);
    disk_close(&d);
    lose_header(&rows[l->body], l->open);
    lose_index();
    d = open_disk();
    for (unsigned i = 0; i < MORE; i++)
        put(d, BODIES + i, &row);
    for (unsigned i = 0; i < BODIES + MORE; i++) {
        enum err want = (l->gone >> i & 1) != 0 ? ERR_NOT_FOUND : ERR_OK;

        CHECK(get(d, i) == want);
    }
    disk_close(&d);
    CHECK(metric_read(M_CHECKSUM_FAILURES, 0) == damages);
}

static void
test_a_body_without_its_header_is_not_believed(void)
{
    world_run(lose, &(struct lost){.body = 3, .gone = 1 << 3});
}

static void
test_a_body_whose_header_is_not_final_is_not_believed(void)
{
    world_run(lose, &(struct lost){.body = 1, .open = true, .gone = 1 << 1});
}

static void
test_nothing_behind_a_lost_header_is_believed(void)
{
    world_run(lose, &(struct lost){.body = 1, .gone = 7 << 1});
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    for (unsigned i = 0; i < BODIES + MORE; i++) {
        bodies[i] = malloc(LARGE);
        world_fill(bodies[i], LARGE, i + 1);
    }
    RUN(test_a_body_without_its_header_is_not_believed);
    RUN(test_a_body_whose_header_is_not_final_is_not_believed);
    RUN(test_nothing_behind_a_lost_header_is_believed);
    for (unsigned i = 0; i < BODIES + MORE; i++)
        free(bodies[i]);
    return check_done();
}
