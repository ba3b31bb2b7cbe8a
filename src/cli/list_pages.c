#include "cli/list_pages.h"

#include "base/mem.h"

enum err
list_pages(struct session *s, struct span bucket, struct span prefix,
           struct span delimiter,
           enum err (*on_entry)(void *arg, const struct s3xml_list_entry *e), void *arg,
           struct errbuf *eb)
{
    struct arena *now = arena_new(KIB(256), MIB(64)),
                 *before = arena_new(KIB(256), MIB(64));
    struct s3_list l = {.bucket = bucket, .prefix = prefix, .delimiter = delimiter};
    struct s3_list_page page = {0};
    struct s3_failure f;
    enum err rc;

    do {
        struct arena *swap = now;

        /* The token lies in the arena of the page before. */
        now = before;
        before = swap;
        arena_reset(now);
        rc = s3_list_objects(s->s3, &l, now, &page, &f, eb);
        if (rc == ERR_OK)
            session_listed(s, bucket, &page);
        for (uint32_t i = 0; rc == ERR_OK && i < page.count; i++)
            rc = on_entry(arg, &page.entries[i]);
        l.token = page.next_token;
    } while (rc == ERR_OK && page.truncated);
    arena_free(&now);
    arena_free(&before);
    return rc;
}
