/* Any bytes as the head of a request between nodes, and as the head of a frame: what parses formats to the same bytes. */
#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "peer/peer.h"
#include "rt/frames.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span text = {(const char *)data, size};
    char again[PEER_HEAD_TEXT_MAX];
    struct errbuf eb = {{0}};
    struct frame_head f;
    struct peer_head h;

    if (peer_head_parse(text, &h, &eb) == ERR_OK) {
        struct span out = {again, peer_head_format(&h, again)};
        struct peer_head same;
        enum err rc = peer_head_parse(out, &same, &eb);

        assert(rc == ERR_OK);
        assert(memcmp(&h, &same, sizeof h) == 0);
        assert(out.len <= text.len); /* leading zeros go */
    } else {
        assert(eb.text[0] != '\0');
    }
    if (size >= FRAME_HEAD_BYTES && size < FRAME_HEAD_BYTES + 8u) {
        unsigned char head[FRAME_HEAD_BYTES];
        uint32_t expected = (uint32_t)data[7];

        if (frame_head_parse(data, expected, &f, &eb) == ERR_OK) {
            frame_head_put(&f, head);
            assert(memcmp(head, data, sizeof head) == 0);
            assert(f.number == expected);
        }
    }
    return 0;
}
