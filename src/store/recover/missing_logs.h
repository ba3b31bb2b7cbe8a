/* missing_logs: native logs that must exist and do not (wal/log_set.h), and what the start does about them. Owner loop;
 * all may switch. */
#pragma once
#include "store/store_entry.h"

struct store;
struct index_checkpoint;
struct wal_position;

/* Reads the list of logs, the watermark and the suspect keys. Before the logs are opened. */
enum err missing_logs_load(struct store *d, struct errbuf *eb) MUST_CHECK;
/* Which logs are missing? Of a cached one the class is dropped (ERR_CORRUPT, then the open goes again). Of a native one
 * d->wals->missing counts. When all logs are open. */
enum err missing_logs_find(struct store *d, struct errbuf *eb) MUST_CHECK;
/* The index's position is in a missing log: where the replay goes on. */
void missing_logs_resume(struct store *d, struct wal_position *native);
/* The index is open and knows the log up to d->recovery->covered: is the disk in doubt? */
enum err missing_logs_compare(struct store *d, struct errbuf *eb) MUST_CHECK;
/* The replay is over: from now on list and watermark follow the log, and look-ups ask the suspects. */
enum err missing_logs_end(struct store *d, struct errbuf *eb) MUST_CHECK;
