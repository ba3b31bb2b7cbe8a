/* flush: brings the tail into the index, one durable commit an interval, behind the replies; then gives back what
 * died. A fiber on the home loop. */
#pragma once
#include "disk/internal.h"

enum err flusher_start(struct disk *d, struct errbuf *eb) MUST_CHECK;
void flusher_stop(struct disk *d); /* after a last round. Switches. */
void flusher_free(struct flusher **fp);

/* One round, at once: by recovery, before the fiber runs. Home; switches. */
enum err flush_round(struct disk *d, struct errbuf *eb) MUST_CHECK;
/* Waits until what is in the tail now is in the index. Home; switches. */
enum err flush_wait(struct disk *d, struct errbuf *eb) MUST_CHECK;
/* Is the tail so long that commits have to wait? */
bool flush_is_behind(const struct disk *d);
