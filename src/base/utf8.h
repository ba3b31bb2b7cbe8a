/* utf8: is it UTF-8 (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF). Any
 * thread. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* The character at the start of s: its length of 1 to 4 bytes, or 0 when it is not UTF-8
 * or s is empty. */
size_t utf8_next(struct span s, uint32_t *code);
bool utf8_valid(struct span s);
/* Writes `code` (a scalar value) into out and returns its length. */
size_t utf8_put(uint32_t code, char out[4]);
