/* wal_walk: visits every record of a class's logs, in segment order, including damaged batches
 * as far as their headers are intact. For tools, on an open store without other users. May
 * switch. */
#pragma once
#include "store/segment/scan.h"
#include "store/store_entry.h"

struct store;

/* `on_bytes` (NULL: none) receives the bytes of each step. */
enum err wal_walk(struct store *d, enum store_class class, wal_salvage_fn *fn, void *arg,
                  void (*on_bytes)(void *arg, uint64_t bytes),
                  struct errbuf *eb) MUST_CHECK;
