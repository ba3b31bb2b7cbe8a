/* A header of a place that cannot be read (torn by a power cut while it was rewritten, or rotten) hides how long its
 * place is. What lies behind it must not be given out again. Found by a power cut on ext4: an acknowledged body was
 * overwritten by the next one. Protects D2, I1, I5. */
#include "world_damage.h"

#define LARGE ((300u << 10) + 77)
#define PAGE  4096u

static bool
reads_right(struct disk *d, const char *key, const char *want)
{
    struct disk_key k = world_key(7, key);
    struct disk_reader *r = NULL;
    struct errbuf eb = {0};
    struct span piece = {"", 0};
    struct row row = {0};
    uint64_t at = 0;
    enum err rc = disk_lookup(d, &k, &row, &eb);

    if (rc == ERR_OK)
        rc = disk_read_begin(d, &k, &row, 0, row.size, &r, &eb);
    while (rc == ERR_OK) {
        rc = disk_read_next(r, DEADLINE_NEVER, &piece, &eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        if (memcmp(piece.at, want + at, piece.len) != 0)
            return false;
        at += piece.len;
    }
    disk_read_end(&r);
    return rc == ERR_OK && at == LARGE;
}

/* Half of the header's sectors are from another time. */
static void
tear_header(const struct row *row)
{
    int fd = world_file("native/body-%06u.tar", (unsigned)row->segment);
    char sector[512];

    memset(sector, 'x', sizeof sector);
    for (uint64_t at = 0; at < PAGE; at += 1024)
        CHECK(pwrite(fd, sector, sizeof sector, (off_t)(row->offset + at)) ==
              (ssize_t)sizeof sector);
    close(fd);
}

struct bodies {
    char *data[6];
};

static void
write_and_tear(struct bodies *b)
{
    struct disk *d = world_open(NULL);
    struct row rows[4];

    for (unsigned i = 0; i < 4; i++) {
        char key[8];

        snprintf(key, sizeof key, "k%u", i);
        CHECK(world_put(d, key, b->data[i], LARGE, &rows[i]) == ERR_OK);
    }
    CHECK(rows[1].segment == rows[3].segment && rows[1].offset < rows[3].offset);
    disk_close(&d);
    tear_header(&rows[1]);
}

static void
write_more(struct bodies *b)
{
    struct disk *d = world_open(NULL);
    struct row row;

    CHECK(world_put(d, "k4", b->data[4], LARGE, &row) == ERR_OK);
    CHECK(world_put(d, "k5", b->data[5], LARGE, &row) == ERR_OK);
    CHECK(reads_right(d, "k0", b->data[0]));
    CHECK(reads_right(d, "k2", b->data[2]));
    CHECK(reads_right(d, "k3", b->data[3]));
    CHECK(reads_right(d, "k4", b->data[4]));
    CHECK(reads_right(d, "k5", b->data[5]));
    disk_close(&d);
}

static void
tear(void *arg)
{
    struct bodies b;

    (void)arg;
    for (unsigned i = 0; i < 6; i++) {
        b.data[i] = malloc(LARGE);
        world_fill(b.data[i], LARGE, i + 1);
    }
    write_and_tear(&b);
    write_more(&b);
    write_more(&b); /* and again, over what was written behind it */
    for (unsigned i = 0; i < 6; i++)
        free(b.data[i]);
}

static void
test_what_lies_behind_a_torn_header_is_kept(void)
{
    world_run(tear, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_what_lies_behind_a_torn_header_is_kept);
    return check_done();
}
