/* key_filter_fill: a start whose index is good reads its keys behind everything else, until what was not met is not there. */
#pragma once
#include "store/core/core.h"

struct key_filter_fill;
struct key_filter_fill *key_filter_fill_new(struct store *d); /* nothing to do: NULL */
void key_filter_fill_free(struct key_filter_fill **fp);       /* NULL is fine */
/* Some thousand keys more. False: there is nothing more to do. Owner loop; may switch. */
bool key_filter_fill_some(struct key_filter_fill *f);
