/* codec: a bucket as bytes, for meta and for the logs of disks. docs/formats.md, section "bucket record". */
#pragma once
#include "map/map.h"

/* On ERR_OK *out is one reference. ERR_CORRUPT. */
enum err map_bucket_decode(struct span record, struct map_bucket **out,
                           struct errbuf *eb) MUST_CHECK;
