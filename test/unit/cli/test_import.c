/* What import does with objects: into parts where one body cannot hold them, the ETag that their record says kept; once,
 * however often it is asked; never with bytes that are not the record's. */
#include "check.h"

#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/import.h"
#include "folder.h"
#include "rt/loop.h"

#define SIZE ((5u << 20) / 2)
static char dir[200];
static char *data;

static void
on_message(void *arg, const char *sentence)
{
    snprintf(arg, 512, "%s", sentence);
}

static struct exported
example(const char *key, uint64_t size)
{
    struct exported e = {.bucket = SPAN("made"),
                         .key = span_of(key),
                         .size = size,
                         .sum = hash_crc32c(0, data, size),
                         .meta = {.mtime_ms = 1700000000123,
                                  .parts = 7,
                                  .content_type = SPAN("text/x"),
                                  .md5 = {1, 2, 3}}};

    return e;
}

/* One object through an import of its own. */
static struct imported
import_one(struct node_offline *n, const struct exported *e, const char *bytes,
           char said[512])
{
    struct import_options o = {
        .body_most = 1u << 20, .part_bytes = 1u << 20, .say = on_message, .arg = said};
    struct errbuf eb = {{0}};
    struct import i;
    bool wanted;

    said[0] = '\0';
    import_start(&i, n, &o);
    CHECK(import_begin(&i, e, true, &wanted, &eb) == ERR_OK);
    for (uint64_t at = 0; wanted && at < e->size; at += 100000) {
        uint64_t len = MIN(e->size - at, (uint64_t)100000);

        CHECK(import_data(&i, (struct span){bytes + at, len}, &eb) == ERR_OK);
    }
    if (wanted)
        CHECK(import_end(&i, &eb) == ERR_OK);
    CHECK(import_finish(&i, &eb) == ERR_OK);
    return i.result;
}

static void
read_back(struct node_offline *n, const char *key, uint64_t size, bool in_parts)
{
    const struct map_bucket *b = map_bucket_find(map_now(n->map), SPAN("made"));
    struct disks_key k = {
        .at = {.bucket = b->id, .immutable_name = SPAN("made"), .key = span_of(key)}};
    struct disks_reader r = {0};
    struct errbuf eb = {{0}};
    struct span piece = {"", 1};
    uint64_t at = 0;
    struct entry entry;

    REQUIRE(disks_lookup(n->disks, &k, &entry, &eb) == ERR_OK);
    CHECK_U64(entry.size, size);
    CHECK_U64(entry.parts, 7);
    CHECK_U64(entry.md5[2], 3);
    CHECK(((entry.flags & ENTRY_PARTS) != 0) == in_parts);
    CHECK(disks_read_begin(n->disks, &k, &entry, 0, entry.size, &r, &eb) == ERR_OK);
    while (piece.len > 0 && disks_read_next(&r, DEADLINE_NEVER, &piece, &eb) == ERR_OK) {
        CHECK(memcmp(piece.at, data + at, piece.len) == 0);
        at += piece.len;
    }
    CHECK_U64(at, size);
    disks_read_end(&r);
}

static void
objects(void *arg)
{
    const char *path = dir;
    struct node_offline n;
    struct exported large = example("in parts", SIZE), small = example("small", 3000);
    struct imported r;
    struct errbuf eb = {{0}};
    char said[512];

    (void)arg;
    if (node_offline_open(&path, 1, &n, &eb) != ERR_OK ||
        node_offline_map(&n, &eb) != ERR_OK) {
        CHECK_STR(eb.text, "");
        return;
    }
    r = import_one(&n, &large, data, said);
    CHECK_U64(r.objects, 1);
    CHECK_U64(r.bytes, SIZE);
    read_back(&n, "in parts", SIZE, true);
    r = import_one(&n, &large, data, said);
    CHECK(r.objects == 0 && r.same == 1);
    r = import_one(&n, &small, data, said);
    CHECK_U64(r.objects, 1);
    read_back(&n, "small", 3000, false);

    large.key = SPAN("damaged"); /* nothing of it stays, parts neither */
    r = import_one(&n, &large, data + 1, said);
    CHECK(r.objects == 0 && r.refused == 1);
    CHECK_SAYS(said, "made/damaged: its bytes are not what its record says");
    small.key = SPAN("");
    r = import_one(&n, &small, data, said);
    CHECK(r.refused == 1);
    CHECK_SAYS(said, "a key is 1 to 1024 bytes");
    node_offline_close(&n);
}

static void
test_objects(void)
{
    struct rt_options o = {.engine = RT_EPOLL, .loops = 1, .workers = 2};
    struct errbuf eb = {{0}};

    snprintf(dir, sizeof dir, "%s/fbimport-XXXXXX",
             getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    REQUIRE(mkdtemp(dir) != NULL);
    CHECK(rt_run(&o, objects, NULL, &eb) == ERR_OK);
    folder_remove(dir);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    data = xmalloc(SIZE + 1);
    for (unsigned i = 0; i <= SIZE; i++)
        data[i] = (char)(i * 2654435761u >> 13);
    RUN(test_objects);
    free(data);
    return check_done();
}
