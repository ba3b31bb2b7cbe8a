#include "node/absent.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "disks/membership.h"
#include "meta/dump.h"
#include "node/state_copy.h"
#include "store/store.h"

/* The list in a disk's own state folder. */
static enum err
absent_list_of_state(struct rt_dir *dot, struct membership *out)
{
    struct rt_dir *state = NULL;
    char *text = NULL;
    size_t len = 0;
    enum err rc = rt_dir_open_at(dot, "node", &state, NULL);

    if (rc == ERR_OK)
        rc =
            rt_file_load(state, MEMBERSHIP_FILE, MEMBERSHIP_BYTES_MAX, &text, &len, NULL);
    if (rc == ERR_OK)
        rc = membership_parse((struct span){text, len}, out, NULL);
    rt_dir_close(&state);
    free(text);
    return rc;
}

/* The list in a copy of the state; the copy holds secrets, which are wiped. */
static enum err
absent_list_of_copy(struct rt_dir *dot, struct membership *out)
{
    struct span pairs, key, value;
    struct state_copy c;
    char *text = NULL;
    size_t len = 0;
    enum err rc =
        rt_file_load(dot, STATE_COPY_FILE, STATE_COPY_BYTES_MAX, &text, &len, NULL);
    enum err found = ERR_NOT_FOUND;

    if (rc == ERR_OK)
        rc = state_copy_parse((struct span){text, len}, &c, NULL);
    if (rc == ERR_OK)
        pairs = c.pairs;
    while (rc == ERR_OK && found != ERR_OK) {
        rc = meta_dump_next(&pairs, &key, &value, NULL);
        if (rc == ERR_OK && span_is(key, "file:" MEMBERSHIP_FILE))
            found = membership_parse(value, out, NULL);
    }
    if (text != NULL)
        OPENSSL_cleanse(text, len);
    free(text);
    return found;
}

/* The state's own list before one of a copy. */
static enum err
absent_load(const char *const *paths, unsigned count, struct membership *out)
{
    enum err rc = ERR_NOT_FOUND;

    for (int copy = 0; rc != ERR_OK && copy < 2; copy++)
        for (unsigned i = 0; rc != ERR_OK && i < count; i++) {
            char *folder = xasprintf("%s/.forebay", paths[i]);
            struct rt_dir *dot = NULL;

            membership_fini(out);
            *out = (struct membership){0};
            rc = rt_dir_open(folder, &dot, NULL);
            if (rc == ERR_OK)
                rc =
                    copy ? absent_list_of_copy(dot, out) : absent_list_of_state(dot, out);
            rt_dir_close(&dot);
            free(folder);
        }
    return rc;
}

static bool
absent_is_disk(const char *path, const uint8_t id[16])
{
    struct store_identity is;

    return store_identify(path, &is, NULL) == ERR_OK && memcmp(is.disk_id, id, 16) == 0;
}

static bool
absent_is_given(const char *const *paths, unsigned count, const uint8_t id[16])
{
    for (unsigned i = 0; i < count; i++)
        if (absent_is_disk(paths[i], id))
            return true;
    return false;
}

void
node_absents_find(const char *const *paths, unsigned count, struct node_absents *out)
{
    static const char *const states[MEMBERSHIP_STATES_] = {"active", "draining", "out",
                                                           "missed", "removed"};
    struct membership list = {0};

    *out = (struct node_absents){.known = absent_load(paths, count, &list) == ERR_OK};
    out->at = xcalloc(list.count + 1, sizeof *out->at);
    for (unsigned i = 0; out->known && i < list.count; i++) {
        const struct membership_disk *d = &list.disks[i];
        struct node_absent *a = &out->at[out->count];

        if (d->state == MEMBERSHIP_REMOVED)
            continue;
        if (absent_is_given(paths, count, d->id)) {
            out->given_weight += d->weight;
            continue;
        }
        *a = (struct node_absent){.path = xstrdup(d->path),
                                  .weight = d->weight,
                                  .is_there = absent_is_disk(d->path, d->id),
                                  .text = states[d->state]};
        hex_encode(d->id, sizeof d->id, a->id);
        out->count++;
    }
    membership_fini(&list);
}

void
node_absents_fini(struct node_absents *a)
{
    for (unsigned i = 0; i < a->count; i++)
        free(a->at[i].path);
    free(a->at);
    *a = (struct node_absents){.count = 0};
}
