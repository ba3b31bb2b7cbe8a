/* known_fill: a start whose index is good reads its keys behind everything else, until what was not met is not there. */
#pragma once
#include "disk/internal.h"

struct known_fill;
struct known_fill *known_fill_new(struct disk *d); /* nothing to do: NULL */
void known_fill_free(struct known_fill **fp);      /* NULL is fine */
/* Some thousand keys more. False: there is nothing more to do. Home loop; may switch. */
bool known_fill_some(struct known_fill *f);
