/* doctor_memory: what `forebay doctor` says of the block cache. Any thread. */
#pragma once
#include <jansson.h>
#include <stddef.h>

/* One sentence about the page /_/stat. */
void doctor_memory_text(const json_t *stat, char *out, size_t room);
