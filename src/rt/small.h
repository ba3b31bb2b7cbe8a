/* small: memory for what a request needs while it is on its way: the loop keeps it for the next one. The last that was given
 * back goes out first, so that it is still in a cache; the heap's own lists are too short for the turns that end thirty
 * requests at once.
 *
 * Any thread: what does not run on a loop is served by the heap. Builds with an address sanitizer always are.
 */
#pragma once
#include <stddef.h>

/* All zeros; never NULL. The caller owns it and gives it back with the same size, on any thread. */
void *small_get(size_t size);
void small_put(void *p, size_t size); /* NULL is fine */
