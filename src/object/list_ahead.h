/* list_ahead: a listing of an attached bucket that goes on from page to page finds the next one here. The remote makes a page
 * while the client reads the one before; asked one after the other, both wait for each other.
 *
 * A page is asked for ahead when one that did not begin the listing has been answered, and is kept AHEAD_MS at most. It is
 * none where a write to an attached bucket went through this node since it was asked for: who has written sees it in
 * what is listed next. A few pages on each loop; beyond, pages are asked for when they are wanted.
 *
 * Any loop; a page lies on the one that asked.
 */
#pragma once
#include "object/internal.h"

struct list_ahead; /* of all loops */
struct list_ahead *list_ahead_new(void);
/* Nothing begins any more, what is under way is given up. May switch. */
void list_ahead_free(struct list_ahead **ap); /* NULL is fine */

/* The remote has changed, or may have: before the writer is told. Any loop. */
void list_ahead_forget(struct object_service *s);

/* Asks the remote for the page behind `after`, as object_list() would with `o`: at the next switch. */
void list_ahead_begin(struct object_service *s, const struct map_bucket *b,
                      const struct object_list_options *o, struct span after);
/* The page that `o` asks for, in the arena; the one behind it is asked for. False: it is not here, or not to be believed. May
 * switch. */
bool list_ahead_take(struct object_service *s, const struct map_bucket *b,
                     const struct object_list_options *o, struct arena *a,
                     struct s3_list_page *out);

/* list.c: the remote's page, no empty one while more follow. */
enum err list_ask_backend(struct object_service *s, const struct map_bucket *b,
                          const struct object_list_options *o, struct arena *a,
                          struct s3_list_page *out, bool *down,
                          struct errbuf *eb) MUST_CHECK;
