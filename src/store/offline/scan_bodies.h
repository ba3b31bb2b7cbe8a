/* scan_bodies: bodies that no log knows, found by walking the headers of the body segments; and made real again. The last
 * resort of a rebuild. On the owner loop of an open disk without other users; may switch.
 *
 * A body counts as known when any record that is left in the native logs names its content, or when a record of its
 * key names a younger one. Of two unknown bodies of one key the younger one stands.
 */
#pragma once
#include "store/core/core.h"

struct body_scan_options {
    bool dry_run;
    void (*say)(void *arg, const char *sentence);
    void (*progress)(void *arg, const char *what, uint64_t done, uint64_t total);
    void *arg;
};
struct body_scan_result {
    uint64_t headers;       /* looked at */
    uint64_t bodies, parts; /* taken back */
};
enum err scan_bodies(struct store *d, const struct body_scan_options *o,
                     struct body_scan_result *out, struct errbuf *eb) MUST_CHECK;
