/* template: templates of names, of many objects and of many links. Pure; any thread.
 *
 *     pre-{0..100}-post   braces, as they are
 *     pre-@100-post       pre-{0..100}-post
 *     pre-%03d-post       pre-{000..999}-post
 */
#pragma once
#include "base/buf.h"

/* Writes the template with braces; text that is of none of the other forms is written as it is. */
void ais_put_template(struct span text, struct buf *out);
