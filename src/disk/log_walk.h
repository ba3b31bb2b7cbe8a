/* log_walk: every record of a class's logs, in the order of the segments, damaged groups included as far as their
 * headers are whole. For tools, on an open disk that nobody else uses; may switch. */
#pragma once
#include "disk/scan.h"

/* `on_bytes` (NULL: none) hears how far it went. */
enum err log_walk(struct disk *d, enum disk_class class, log_salvage_fn *fn, void *arg,
                  void (*on_bytes)(void *arg, uint64_t bytes),
                  struct errbuf *eb) MUST_CHECK;
