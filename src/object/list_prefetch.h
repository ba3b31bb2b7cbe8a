/* list_prefetch: a listing of an attached bucket that goes on from page to page finds the next one here. The remote makes a page
 * while the client reads the one before; asked one after the other, both wait for each other.
 *
 * A page is asked for ahead when the one before, wanted by somebody and not the first of its listing, has told how the
 * list goes on: most remotes say so before the names, so while that one still arrives. The page is kept AHEAD_MS at most,
 * and is none where the one before turned out to go on otherwise, or where a write to an attached bucket went through
 * this node since it was asked for: who has written sees it in what is listed next. A few pages on each loop; beyond,
 * pages are asked for when they are wanted.
 *
 * Any loop; a page lies on the one that asked.
 */
#pragma once
#include "object/internal.h"

struct list_prefetch; /* of all loops */
struct list_prefetch *list_prefetch_new(void);
/* Nothing begins any more, what is under way is given up. May switch. */
void list_prefetch_free(struct list_prefetch **ap); /* NULL is fine */

/* The remote has changed, or may have: before the writer is told. Any loop. */
void list_prefetch_invalidate(struct object_service *s);

/* What is asked for behind one page. Set `s`, `bucket`, `o` (all borrowed) and `wanted`; the rest begins as 0. */
struct list_follow {
    struct object_service *s;
    const struct map_bucket *bucket;
    const struct object_list_options *o;
    bool wanted; /* the page behind is to be asked for as soon as that can be done */
    struct span token;      /* of it; empty: not known yet */
    struct list_page *next; /* one reference; NULL: it was not asked for yet */
};
/* That page has told how the list goes on. The token must live as long as `f`. */
void list_follow_token(struct list_follow *f, struct span token);
/* That page is here (or failed): the one behind it takes its place, or is given up. True: it was asked for only now, at the
 * next switch. In every case, once. */
bool list_follow_end(struct list_follow *f, enum err rc,
                     const struct s3_list_page *found);
/* The page that `o` asks for, in the arena; the one behind it is asked for. False: it is not here, or not to be believed. May
 * switch. */
bool list_prefetch_take(struct object_service *s, const struct map_bucket *b,
                        const struct object_list_options *o, struct arena *a,
                        struct s3_list_page *out);

/* list.c: the remote's page that `f` follows, no empty one while more follow. `token`: of the page; empty: the one behind
 * f->o->after. */
enum err list_ask_backend(struct list_follow *f, struct span token, struct arena *a,
                          struct s3_list_page *out, bool *down,
                          struct errbuf *eb) MUST_CHECK;
