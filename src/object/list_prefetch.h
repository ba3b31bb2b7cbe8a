/* list_prefetch: the next page of a remote listing, requested before the client asks for it. The remote builds a page
 * while the client reads the one before; otherwise each waits for the other.
 *
 * A page is requested when the page before it, wanted by a client and not the first of its listing, has revealed the
 * continuation token: most remotes send it before the names, so while that page still arrives. A page is kept for
 * LIST_PREFETCH_MS at most. It is dropped when the page before it ends with another token, and when a write to an
 * attached bucket went through this node after the request: a writer sees its write in its next listing. Each loop
 * keeps a few pages; beyond, pages are requested when a client wants them.
 *
 * Any loop; a page lives on the loop that requested it.
 */
#pragma once
#include "object/internal.h"

struct list_prefetch; /* of all loops */
struct list_prefetch *list_prefetch_new(void);
/* Lets no request start and cancels those in flight. May switch. */
void list_prefetch_free(struct list_prefetch **ap); /* NULL is fine */

/* The remote has changed, or may have: called before the writer gets its answer. Any loop. */
void list_prefetch_invalidate(struct object_service *s);

/* The request for the page that follows another. Set `s`, `bucket`, `o` (all borrowed) and `wanted`; the rest
 * starts as 0. */
struct list_follow {
    struct object_service *s;
    const struct map_bucket *bucket;
    const struct object_list_options *o;
    bool wanted;            /* request the following page as soon as its token is known */
    struct span token;      /* of the following page; empty: not known yet */
    struct list_page *next; /* one reference; NULL: not requested yet */
};
/* The page has revealed its continuation token. The token must live as long as `f`. */
void list_follow_token(struct list_follow *f, struct span token);
/* The page has arrived (or failed): the following page gets its position, or is dropped. True: it was requested
 * only now, at the next switch. Call it once, in every case. */
bool list_follow_end(struct list_follow *f, enum err rc,
                     const struct s3_list_page *found);
/* The page that `o` asks for, in the arena; requests the one that follows. False: it is not here, or no longer
 * valid. May switch. */
bool list_prefetch_take(struct object_service *s, const struct map_bucket *b,
                        const struct object_list_options *o, struct arena *a,
                        struct s3_list_page *out);

/* list.c: the remote's page that `f` follows, skipping empty pages that have successors. `token`: of the page;
 * empty: the page after f->o->after. */
enum err list_ask_backend(struct list_follow *f, struct span token, struct arena *a,
                          struct s3_list_page *out, bool *down,
                          struct errbuf *eb) MUST_CHECK;
