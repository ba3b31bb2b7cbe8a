#include "store/offline/check.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "store/core/core.h"
#include "store/index/index.h"
#include "store/index/memtable.h"
#include "store/index/usage.h"
#include "store/recover/recovery.h"
#include "store/recover/replay.h"
#include "store/segment/reading.h"
#include "store/segment/segment.h"
#include "store/store_entry.h"
#include "store/store_health.h"
#include "store/wal/prepared.h"
#include "store/wal/wal.h"

const char *check_class_name(enum store_class class)
{
    return class == STORE_NATIVE ? "native" : "cached";
}

void
check_report(struct check *k, bool fault, const char *fmt, ...)
{
    uint64_t *count = fault ? &k->result->faults : &k->result->notes;
    char text[512];
    va_list ap;

    assert(k->result != NULL);
    assert(k->say != NULL);
    if (++*count > CHECK_SENTENCES_MAX)
        return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    k->say(k->arg, fault, text);
}

const char *
check_key(uint64_t bucket, struct span key, char out[CHECK_KEY_TEXT])
{
    int n = snprintf(out, CHECK_KEY_TEXT, "\"");

    for (size_t i = 0; i < key.len && n < CHECK_KEY_TEXT - 60; i++) {
        unsigned char c = (unsigned char)key.at[i];

        n += snprintf(out + n, CHECK_KEY_TEXT - (size_t)n,
                      c >= ' ' && c != '"' && c != '\\' && c < 127 ? "%c" : "\\x%02x", c);
    }
    (void)snprintf(out + n, CHECK_KEY_TEXT - (size_t)n, "\" of bucket %" PRIu64, bucket);
    return out;
}

/* ---- the scratch index ---- */

static enum err
make_scratch(struct check *k, const char *where, struct errbuf *eb)
{
    struct index_options o = {.read_only = false};
    struct index_checkpoint checkpoint;
    enum index_state state;
    unsigned char random[8];
    char hex[17];
    enum err rc = rt_dir_open(where, &k->scratch_parent, eb);

    assert(k->scratch == NULL);
    assert(k->disk->read_only);
    if (rc != ERR_OK)
        return rc;
    rt_random(random, sizeof random);
    hex_encode(random, sizeof random, hex);
    (void)snprintf(k->scratch_name, sizeof k->scratch_name, "forebay-check-%s", hex);
    rc = rt_dir_make(k->scratch_parent, k->scratch_name, 0700, eb);
    if (rc == ERR_OK)
        rc = rt_dir_open_at(k->scratch_parent, k->scratch_name, &k->scratch, eb);
    if (rc != ERR_OK)
        return rc;
    o.dir = k->scratch;
    memcpy(o.disk_id, k->disk->disk_id, sizeof o.disk_id);
    return index_open(&o, &k->disk->index, &state, &checkpoint, eb);
}

static void
remove_scratch(struct check *k)
{
    struct rt_dir *folder;
    struct errbuf eb = {0};

    if (k->scratch == NULL) {
        rt_dir_close(&k->scratch_parent);
        return;
    }
    if (rt_dir_open_at(k->scratch, "index", &folder, &eb) == ERR_OK) {
        (void)!rt_dir_unlink(folder, "data.mdb", &eb);
        (void)!rt_dir_unlink(folder, "lock.mdb", &eb);
        rt_dir_close(&folder);
        (void)!rt_dir_unlink(k->scratch, "index", &eb);
    }
    rt_dir_close(&k->scratch);
    if (rt_dir_unlink(k->scratch_parent, k->scratch_name, &eb) != ERR_OK)
        check_note(k, "the scratch folder \"%s\" stays behind: %s", k->scratch_name,
                   eb.text);
    rt_dir_close(&k->scratch_parent);
}

static enum err
open_real(struct check *k, struct errbuf *eb)
{
    struct index_options o = {.dir = k->disk->root, .read_only = true};
    enum index_state state;
    enum err rc;

    memcpy(o.disk_id, k->disk->disk_id, sizeof o.disk_id);
    rc = index_open(&o, &k->real, &state, &k->checkpoint, eb);
    k->repair.index |= rc == ERR_OK && k->real == NULL;
    if (rc == ERR_OK && k->real == NULL && state == INDEX_BAD)
        check_fault(k, "the index is damaged: the next start, or forebay disk rebuild, "
                       "rebuilds it from the logs");
    else if (rc == ERR_OK && k->real == NULL)
        check_note(k, "the index is %s: the next start rebuilds it from the logs",
                   state == INDEX_EMPTY ? "empty" : "another disk's");
    return rc;
}

/* ---- all of it ---- */

struct check *
check_new(void)
{
    struct check *k = xcalloc(1, sizeof *k);

    k->disk = store_new(&(struct store_options){.owner_loop = rt_loop_index()}, true);
    return k;
}

void
check_repair_fini(struct check_repair *r)
{
    for (uint32_t i = 0; i < r->lost_count; i++)
        free(r->lost[i].key);
    free(r->lost);
    free(r->headers);
    *r = (struct check_repair){0};
}

void
check_free(struct check **kp)
{
    struct check *k = *kp;

    *kp = NULL;
    check_repair_fini(&k->repair);
    index_close(&k->real);
    index_close(&k->disk->index);
    remove_scratch(k);
    store_free(&k->disk);
    free(k->chains);
    free(k->dropped);
    free(k);
}

enum err
check_open(struct check *k, const char *path, const char *scratch, struct errbuf *eb)
{
    enum err rc = check_files(k, path, eb);

    assert(k->disk->read_only);
    return rc == ERR_OK ? make_scratch(k, scratch, eb) : rc;
}

enum err
check_run(struct check *k, const char *path, const char *scratch, struct errbuf *eb)
{
    enum err rc = check_open(k, path, scratch, eb);

    assert(k->disk->read_only);
    if (rc == ERR_OK)
        rc = open_real(k, eb);
    if (rc == ERR_OK && k->real != NULL)
        rc = check_logs(k, true, eb);
    /* What the index knows of a missing log the others do not. */
    if (rc == ERR_OK && k->real != NULL && k->disk->wals->missing == 0)
        rc = check_index(k, eb);
    k->as_start = true;
    if (rc == ERR_OK)
        rc = check_logs(k, false, eb);
    if (rc == ERR_OK)
        rc = check_suspects(k, eb);
    if (rc == ERR_OK)
        rc = check_objects(k, eb);
    if (k->result->faults > CHECK_SENTENCES_MAX)
        k->say(k->arg, true, "… and more: only the first 1000 faults are listed");
    return rc;
}

enum err
store_check(const char *path, const char *scratch,
            void (*say)(void *arg, bool fault, const char *sentence), void *arg,
            struct store_checked *out, struct errbuf *eb)
{
    struct check *k = check_new();
    enum err rc;

    *out = (struct store_checked){0};
    k->result = out;
    k->say = say;
    k->arg = arg;
    rc = check_run(k, path, scratch, eb);
    check_free(&k);
    return rc;
}
