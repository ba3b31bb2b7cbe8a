/* The list of a node's disks: what is read prints back to the same bytes. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "disks/roster.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct roster r, again;
    struct errbuf eb = {{0}};
    struct buf text;

    if (size > 64u << 10)
        return 0;
    if (roster_parse((struct span){(const char *)data, size}, &r, &eb) == ERR_OK) {
        assert(r.count <= ROSTER_MAX);
        buf_init(&text, ROSTER_BYTES_MAX);
        roster_print(&r, &text);
        assert(!text.full);
        assert(roster_parse(buf_span(&text), &again, &eb) == ERR_OK);
        assert(again.count == r.count && again.settled == r.settled);
        for (unsigned i = 0; i < r.count; i++) {
            const struct roster_disk *a = &r.disks[i], *b = &again.disks[i];

            assert(memcmp(a->id, b->id, sizeof a->id) == 0 && a->state == b->state);
            assert(a->weight == b->weight && strcmp(a->path, b->path) == 0);
            assert(roster_find(&r, a->id) == a);
        }
        roster_fini(&again);
        buf_fini(&text);
    } else {
        assert(eb.text[0] != '\0');
    }
    roster_fini(&r);
    return 0;
}
