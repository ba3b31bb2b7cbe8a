/* field: a header field, as bytes borrowed from its reader or writer, and a list of
 * them in the order of the wire. Names are compared without regard to case; values carry
 * no outer white space. */
#pragma once
#include <stddef.h>

#include "base/span.h"

struct field {
    struct span name;
    struct span value;
};

struct fields {
    const struct field *at;
    size_t count;
};

/* The first field of that name, or NULL. `name` is written in lower case. */
static inline const struct field *
fields_find(struct fields fs, const char *name)
{
    size_t len = strlen(name);

    for (size_t i = 0; i < fs.count; i++) {
        if (fs.at[i].name.len == len && strncasecmp(fs.at[i].name.at, name, len) == 0)
            return &fs.at[i];
    }
    return NULL;
}
/* Its value; `at` is NULL when there is no such field: absent and empty differ. */
static inline struct span
fields_get(struct fields fs, const char *name)
{
    const struct field *f = fields_find(fs, name);

    return f != NULL ? f->value : (struct span){NULL, 0};
}
