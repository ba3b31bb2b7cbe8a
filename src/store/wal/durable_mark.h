/* promised: how far the cached log must be there, kept in `.forebay/retired`: what deletes, replaces or in_doubt a cached object
 * is synced before the reply. Where the log ends earlier than that, its last batches are damaged, for nothing behind them tells
 * (hole.h). Kept when the disk is closed, and meanwhile now and then: never by who waits for a reply.
 *
 * Home; may switch.
 */
#pragma once
#include "store/core/core.h"

/* Writes the list of retired logs, whoever else does meanwhile; where the disk is full, in place of the ballast. */
enum err truncated_persist(struct store *d, struct errbuf *eb) MUST_CHECK;
/* If something was promised since the last time: at once where the disk is closed, else when that is long ago. */
void durable_mark_persist(struct store *d, bool closing);
