/* list_pages: goes through a listing page by page. */
#pragma once
#include "cli/session.h"

/* Calls on_entry for each key (and common prefix) under a prefix, in byte order, page after page; what it returns other than
 * ERR_OK ends the walk. Entries are lent for the call. */
enum err list_pages(struct session *s, struct span bucket, struct span prefix,
                    struct span delimiter,
                    enum err (*on_entry)(void *arg, const struct s3xml_list_entry *e),
                    void *arg, struct errbuf *eb) MUST_CHECK;
