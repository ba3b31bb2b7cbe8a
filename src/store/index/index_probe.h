/* index_probe: a few looks at an index that is about to be believed. What a start reads anyway can be read, and each of the
 * first buckets has a entry. Pages that are damaged elsewhere show when they are read. */
#pragma once
#include "store/index/index.h"

#ifdef FB_TEST_HOOKS
extern uint64_t
    index_probe_all_of; /* bytes: an index of so much is verified as a whole */
#endif
/* ERR_CORRUPT: it is damaged, and says how. Takes a few reads of each bucket. May switch. */
enum err index_probe(struct index *x, struct errbuf *eb) MUST_CHECK;
