/* msgpack: a writer of MessagePack: listings of AIS clients. Maps and arrays need their number of members in front. */
#pragma once
#include <stdint.h>

#include "base/buf.h"

void msgpack_map(struct buf *out, uint32_t members);
void msgpack_array(struct buf *out, uint32_t members);
void msgpack_text(struct buf *out, struct span text);
void msgpack_u64(struct buf *out, uint64_t value);
