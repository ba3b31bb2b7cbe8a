/* copy_headers: the headers of an object that is copied through this client: content type and similar, user metadata, tags. */
#pragma once
#include "cli/flow.h"

struct copy_headers {
    struct s3_header *headers; /* of a PUT, or of the begin of an upload in parts */
    uint32_t count;
};
/* `info` is the HEAD of it->from. Asks for the tags, unless the flow leaves them behind; if these keys may not read them it reports that once,
 * and a server that has none is asked once. Everything lies in the arena. May switch. */
enum err copy_headers_find(struct flow *f, const struct item *it,
                           const struct s3_object_info *info, struct arena *a,
                           struct copy_headers *out, struct errbuf *eb) MUST_CHECK;
