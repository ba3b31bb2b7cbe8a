/* front_end: the protocols behind the one port, one row each. */
#include <assert.h>

#include "api/internal.h"
#include "base/mem.h"

/* The first matching prefix wins. Prefixes count in path style only: with a bucket in Host the whole path is a key, and the
 * last row applies. */
static const struct front_end front_ends[] = {
    {"/_/", 0, false, false, admin_handle, s3_identify, fault_answer_xml, false},
    {"/s3", 3, true, false, s3_handle, s3_identify, fault_answer_xml, true},
    {"/v1", 0, false, true, ais_handle, ais_identify, ais_write_error, false},
    {"/", 0, true, false, s3_handle, s3_identify, fault_answer_xml, true},
};

/* "/_/" matches paths below it, "/s3" itself and paths below it. Comparing the second byte first rejects nearly every path. */
static bool
prefix_fits(struct span path, const char *text)
{
    struct span prefix;

    if (path.len < 2 || path.at[1] != text[1])
        return false;
    prefix = span_of(text);
    return span_starts(path, prefix) &&
           (prefix.at[prefix.len - 1] == '/' || path.len == prefix.len ||
            path.at[prefix.len] == '/');
}

const struct front_end *
front_end_of(struct span path, bool bucket_in_host)
{
    const struct front_end *last = &front_ends[ARRAY_LEN(front_ends) - 1];

    struct span single = path;

    /* "//v1/x" of clients whose address ends in a slash; no bucket has an empty name. */
    while (single.len > 1 && single.at[1] == '/')
        single = span_from(single, 1);
    for (const struct front_end *f = front_ends; f < last && !bucket_in_host; f++)
        if (prefix_fits(f->splits_itself ? single : path, f->prefix))
            return f;
    assert(last->skip == 0);
    return last;
}
