/* wal_walk: every record of a class's logs, in the order of the segments, damaged batches included as far as their
 * headers are whole. For tools, on an open store without other users; may switch. */
#pragma once
#include "store/segment/scan.h"
#include "store/store_entry.h"

struct store;

/* `on_bytes` (NULL: none) gets the bytes of each step. */
enum err wal_walk(struct store *d, enum store_class class, wal_salvage_fn *fn, void *arg,
                  void (*on_bytes)(void *arg, uint64_t bytes),
                  struct errbuf *eb) MUST_CHECK;
