/* walk: the members of an archive of any format, one after the other, with their bytes; for readers without a service: the command
 * line. A tar is read in one pass, of a zip the directory first. Fibers: one. Calls may switch.
 */
#pragma once
#include "shard/index.h"
#include "shard/stream.h"

struct shard_walk;
/* Borrows `in`. */
enum err shard_walk_open(struct shard_input *in, enum shard_format f,
                         struct shard_walk **out, struct errbuf *eb) MUST_CHECK;
/* The next member; *end: there is none. */
enum err shard_walk_next(struct shard_walk *w, struct shard_member *m, bool *end,
                         struct errbuf *eb) MUST_CHECK;
/* The next piece of it, valid until the next call; len 0: its end. */
enum err shard_walk_data(struct shard_walk *w, struct span *piece,
                         struct errbuf *eb) MUST_CHECK;
void shard_walk_close(struct shard_walk **wp); /* NULL is fine */
