#include "disks/membership.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/num.h"

#define HEAD_1     "forebay-disks 1" /* without generations */
#define HEAD_2     "forebay-disks 2"
#define LINES_HEAD 3

static const char *const state_names[MEMBERSHIP_STATES_] = {
    [MEMBERSHIP_ACTIVE] = "active",   [MEMBERSHIP_DRAINING] = "draining",
    [MEMBERSHIP_OUT] = "out",         [MEMBERSHIP_MISSED] = "missed",
    [MEMBERSHIP_REMOVED] = "removed",
};

/* Returns the next line without its end; false: no more lines. */
static bool
next_line(struct span *rest, struct span *line)
{
    const char *end = rest->len > 0 ? memchr(rest->at, '\n', rest->len) : NULL;

    if (end == NULL)
        return false;
    *line = (struct span){rest->at, (size_t)(end - rest->at)};
    *rest = span_from(*rest, line->len + 1);
    return true;
}

/* Returns the text up to the next space, and skips that space. Empty: no more. */
static struct span
next_word(struct span *line)
{
    const char *end = line->len > 0 ? memchr(line->at, ' ', line->len) : NULL;
    struct span word = {line->at, end != NULL ? (size_t)(end - line->at) : 0};

    if (end != NULL)
        *line = span_from(*line, word.len + 1);
    return word;
}

static bool
parse_disk(struct span line, bool generations, struct membership *out, struct errbuf *eb)
{
    struct span word = next_word(&line), id = next_word(&line), state = next_word(&line);
    struct span weight = next_word(&line);
    struct membership_disk d = {0};
    unsigned s = 0;
    char *path;
    enum err rc;

    assert(out->count <= MEMBERSHIP_MAX);
    if (!span_is(word, "disk") || id.len != 32 ||
        hex_decode(id.at, id.len, d.id, sizeof d.id) != (int)sizeof d.id ||
        num_u64(weight, &d.weight) != ERR_OK ||
        (generations && num_u64(next_word(&line), &d.generation) != ERR_OK) ||
        line.len == 0 || line.len > MEMBERSHIP_PATH_MAX ||
        memchr(line.at, '\0', line.len) != NULL)
        return false;
    while (s < MEMBERSHIP_STATES_ && !span_is(state, state_names[s]))
        s++;
    if (s == MEMBERSHIP_STATES_ || membership_find(out, d.id) != NULL)
        return false;
    path = xmemdup0(line.at, line.len);
    rc = membership_add(out, d.id, d.weight, path, eb);
    free(path);
    if (rc == ERR_OK)
        out->disks[out->count - 1].state = (enum membership_state)s;
    if (rc == ERR_OK)
        out->disks[out->count - 1].generation = d.generation;
    return rc == ERR_OK;
}

enum err
membership_parse(struct span text, struct membership *out, struct errbuf *eb)
{
    struct span line = {NULL, 0};
    unsigned number = 0;
    bool generations = false;

    *out = (struct membership){0};
    while (next_line(&text, &line)) {
        bool good = false;

        switch (++number) {
        case 1:
            generations = span_is(line, HEAD_2);
            good = generations || span_is(line, HEAD_1);
            break;
        case 2:
            out->converged = span_is(line, "settled yes");
            good = out->converged || span_is(line, "settled no");
            break;
        case LINES_HEAD:
            out->open = span_is(line, "open yes");
            good = out->open || span_is(line, "open no");
            break;
        default:
            good = parse_disk(line, generations, out, eb);
        }
        if (!good)
            return err_set(eb, ERR_CORRUPT,
                           "the list of disks: line %u is not understood", number);
    }
    if (text.len > 0 || number <= LINES_HEAD)
        return err_set(eb, ERR_CORRUPT, "the list of disks ends after %u lines", number);
    return ERR_OK;
}

void
membership_print(const struct membership *r, struct buf *out)
{
    assert(r->count <= MEMBERSHIP_MAX);

    buf_printf(out, HEAD_2 "\nsettled %s\nopen %s\n", r->converged ? "yes" : "no",
               r->open ? "yes" : "no");
    for (unsigned i = 0; i < r->count; i++) {
        const struct membership_disk *d = &r->disks[i];
        char id[33];

        hex_encode(d->id, sizeof d->id, id);
        buf_printf(out, "disk %s %s %" PRIu64 " %" PRIu64 " %s\n", id,
                   state_names[d->state], d->weight, d->generation, d->path);
    }
}

void
membership_fini(struct membership *r)
{
    for (unsigned i = 0; i < r->count; i++)
        free(r->disks[i].path);
    free(r->disks);
    *r = (struct membership){0};
}

struct membership_disk *
membership_find(const struct membership *r, const uint8_t id[16])
{
    assert(r->count <= MEMBERSHIP_MAX);

    for (unsigned i = 0; i < r->count; i++)
        if (memcmp(r->disks[i].id, id, 16) == 0)
            return &r->disks[i];
    return NULL;
}

enum err
membership_add(struct membership *r, const uint8_t id[16], uint64_t weight,
               const char *path, struct errbuf *eb)
{
    struct membership_disk *d;

    assert(path != NULL);
    if (r->count == MEMBERSHIP_MAX)
        return err_set(eb, ERR_BUSY, "the list of disks has %u lines, at most %u",
                       r->count, MEMBERSHIP_MAX);
    if (strlen(path) > MEMBERSHIP_PATH_MAX || strchr(path, '\n') != NULL)
        return err_set(eb, ERR_BAD_REQUEST,
                       "a path of a disk has at most %u bytes and no line end",
                       MEMBERSHIP_PATH_MAX);
    r->disks = xrealloc(r->disks, (r->count + 1) * sizeof *r->disks);
    d = &r->disks[r->count++];
    *d = (struct membership_disk){.weight = weight, .path = xstrdup(path)};
    memcpy(d->id, id, sizeof d->id);
    return ERR_OK;
}
