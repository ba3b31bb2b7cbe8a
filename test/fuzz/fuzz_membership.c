/* The list of a node's disks: what is read prints back to the same bytes. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "disks/membership.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct membership r, again;
    struct errbuf eb = {{0}};
    struct buf text;

    if (size > 64u << 10)
        return 0;
    if (membership_parse((struct span){(const char *)data, size}, &r, &eb) == ERR_OK) {
        assert(r.count <= MEMBERSHIP_MAX);
        buf_init(&text, MEMBERSHIP_BYTES_MAX);
        membership_print(&r, &text);
        assert(!text.full);
        assert(membership_parse(buf_span(&text), &again, &eb) == ERR_OK);
        assert(again.count == r.count && again.converged == r.converged);
        for (unsigned i = 0; i < r.count; i++) {
            const struct membership_disk *a = &r.disks[i], *b = &again.disks[i];

            assert(memcmp(a->id, b->id, sizeof a->id) == 0 && a->state == b->state);
            assert(a->generation == b->generation);
            assert(a->weight == b->weight && strcmp(a->path, b->path) == 0);
            assert(membership_find(&r, a->id) == a);
        }
        membership_fini(&again);
        buf_fini(&text);
    } else {
        assert(eb.text[0] != '\0');
    }
    membership_fini(&r);
    return 0;
}
