/* The list of gaps between logs: merged as it grows, and any damage of its file is said and leaves it empty. Protects D1:
 * a gap that it does not know is damage. */
#include "world.h"

#include "base/log.h"
#include "rt/file.h"
#include "store/store_entry.h"
#include "store/wal/truncated.h"

static void
test_ranges_merge(void)
{
    struct truncated r = {0};

    truncated_add(&r, STORE_NATIVE, 10, 19);
    truncated_add(&r, STORE_NATIVE, 30, 39);
    truncated_add(&r, STORE_NATIVE, 1, 5);
    CHECK_U64(r.of[STORE_NATIVE].count, 3);
    CHECK(truncated_covers(&r, STORE_NATIVE, 10, 19) &&
          truncated_covers(&r, STORE_NATIVE, 12, 12));
    CHECK(!truncated_covers(&r, STORE_NATIVE, 10, 20) &&
          !truncated_covers(&r, STORE_NATIVE, 9, 10));
    CHECK(!truncated_covers(&r, STORE_CACHED, 10, 19));
    CHECK_U64(truncated_next_after(&r, STORE_NATIVE, 5), 10);
    CHECK_U64(truncated_next_after(&r, STORE_NATIVE, 30), 0);
    truncated_add(&r, STORE_NATIVE, 20, 29); /* touches both */
    CHECK_U64(r.of[STORE_NATIVE].count, 2);
    CHECK(truncated_covers(&r, STORE_NATIVE, 10, 39));
    truncated_add(&r, STORE_NATIVE, 1, 100);
    CHECK_U64(r.of[STORE_NATIVE].count, 1);
    truncated_add(&r, STORE_NATIVE, 8, 7); /* no batch at all */
    CHECK_U64(r.of[STORE_NATIVE].count, 1);
    truncated_forget(&r, STORE_NATIVE, 100);
    CHECK_U64(r.of[STORE_NATIVE].count, 1);
    truncated_forget(&r, STORE_NATIVE, 101);
    CHECK_U64(r.of[STORE_NATIVE].count, 0);
    truncated_fini(&r);
}

static void
file(void *arg)
{
    struct truncated r = {0}, back;
    struct errbuf eb = {0};
    struct rt_dir *dir = NULL;
    char *bytes = NULL;
    size_t len = 0;

    (void)arg;
    REQUIRE(mkdir(world_path, 0700) == 0);
    REQUIRE(rt_dir_open(world_path, &dir, &eb) == ERR_OK);
    CHECK(truncated_load(dir, &back, &eb) == ERR_OK && back.of[STORE_NATIVE].count == 0);
    truncated_add(&r, STORE_NATIVE, 10, 19);
    truncated_add(&r, STORE_CACHED, 1, 1);
    REQUIRE(truncated_save(dir, &r, &eb) == ERR_OK);
    CHECK(truncated_load(dir, &back, &eb) == ERR_OK);
    CHECK(truncated_covers(&back, STORE_NATIVE, 10, 19) &&
          truncated_covers(&back, STORE_CACHED, 1, 1));
    truncated_fini(&back);
    REQUIRE(rt_file_load(dir, TRUNCATED_FILE, 4096, &bytes, &len, &eb) == ERR_OK);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << (bit % 8));
        REQUIRE(rt_file_store(dir, TRUNCATED_FILE, bytes, len, 0600, &eb) == ERR_OK);
        CHECK(truncated_load(dir, &back, &eb) == ERR_OK &&
              back.of[STORE_NATIVE].count == 0 && back.of[STORE_CACHED].count == 0);
        truncated_fini(&back);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << (bit % 8));
    }
    free(bytes);
    truncated_fini(&r);
    rt_dir_close(&dir);
}

static void
test_a_flipped_bit_leaves_no_list(void)
{
    world_run(file, NULL);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    log_set_level(LOG_ERROR + 1);
    RUN(test_ranges_merge);
    RUN(test_a_flipped_bit_leaves_no_list);
    return check_done();
}
