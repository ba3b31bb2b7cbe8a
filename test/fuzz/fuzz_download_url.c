/* Any line of a download: its parts lie in the line, in their order; a host that is denied in general is denied where private ones
 * are allowed only if it is link-local or special. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/download_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
part_lies_in(struct span part, struct span all)
{
    if (part.len > 0 && (part.at < all.at || part.at + part.len > all.at + all.len))
        abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *line = xmemdup0((const char *)data, size);
    struct download_url u;
    struct errbuf eb = {{0}};

    if (download_url_split(line, &u, &eb) == ERR_OK) {
        struct span all = span_of(line);

        part_lies_in(u.all, all);
        part_lies_in(u.origin, u.all);
        part_lies_in(u.host, u.origin);
        part_lies_in(u.path, u.all);
        part_lies_in(u.name, all);
        if (u.host.len == 0 || u.path.len == 0 || u.path.at <= u.host.at)
            abort();
        if (download_url_check(&u, true, &eb) == ERR_DENIED &&
            download_url_check(&u, false, &eb) != ERR_DENIED)
            abort();
    } else if (eb.text[0] == '\0') {
        abort();
    }
    free(line);
    return 0;
}
