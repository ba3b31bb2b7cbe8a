/* A header of a place that cannot be read (torn by a power cut while it was rewritten, or rotten) hides how long its
 * place is. What lies behind it must not be given out again. Found by a power cut on ext4: an acknowledged body was
 * overwritten by the next one. Protects D2, I1, I5. */
#include "world_damage.h"

#define LARGE ((300u << 10) + 77)
#define PAGE  4096u

static bool
reads_right(struct store *d, const char *key, const char *want)
{
    struct store_key k = world_key(7, key);
    struct store_reader *r = NULL;
    struct errbuf eb = {0};
    struct span piece = {"", 0};
    struct entry entry = {0};
    uint64_t at = 0;
    enum err rc = store_lookup(d, &k, &entry, &eb);

    if (rc == ERR_OK)
        rc = store_read_begin(d, &k, &entry, 0, entry.size, &r, &eb);
    while (rc == ERR_OK) {
        rc = store_read_next(r, DEADLINE_NEVER, &piece, &eb);
        if (rc != ERR_OK || piece.len == 0)
            break;
        if (memcmp(piece.at, want + at, piece.len) != 0)
            return false;
        at += piece.len;
    }
    store_read_end(&r);
    return rc == ERR_OK && at == LARGE;
}

/* Half of the header's sectors are from another time. */
static void
tear_header(const struct entry *entry)
{
    int fd = world_file("native/body-%06u.tar", (unsigned)entry->place.segment);
    char sector[512];

    memset(sector, 'x', sizeof sector);
    for (uint64_t at = 0; at < PAGE; at += 1024)
        CHECK(pwrite(fd, sector, sizeof sector, (off_t)(entry->place.offset + at)) ==
              (ssize_t)sizeof sector);
    close(fd);
}

struct bodies {
    char *data[6];
};

static void
write_and_tear(struct bodies *b)
{
    struct store *d = world_open(NULL);
    struct entry entries[4];

    for (unsigned i = 0; i < 4; i++) {
        char key[8];

        snprintf(key, sizeof key, "k%u", i);
        CHECK(world_put(d, key, b->data[i], LARGE, &entries[i]) == ERR_OK);
    }
    CHECK(entries[1].place.segment == entries[3].place.segment &&
          entries[1].place.offset < entries[3].place.offset);
    store_close(&d);
    tear_header(&entries[1]);
}

static void
write_more(struct bodies *b)
{
    struct store *d = world_open(NULL);
    struct entry entry;

    CHECK(world_put(d, "k4", b->data[4], LARGE, &entry) == ERR_OK);
    CHECK(world_put(d, "k5", b->data[5], LARGE, &entry) == ERR_OK);
    CHECK(reads_right(d, "k0", b->data[0]));
    CHECK(reads_right(d, "k2", b->data[2]));
    CHECK(reads_right(d, "k3", b->data[3]));
    CHECK(reads_right(d, "k4", b->data[4]));
    CHECK(reads_right(d, "k5", b->data[5]));
    store_close(&d);
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
