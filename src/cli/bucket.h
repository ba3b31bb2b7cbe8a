/* bucket: what a Forebay server says of a bucket to its administrators, for bucket ls and stat. */
#pragma once
#include <jansson.h>

#include "cli/session.h"

/* *out is owned by the caller. ERR_NOT_FOUND: the server does not say: it is no Forebay, or the caller no administrator. May switch. */
enum err bucket_facts(struct session *s, struct span bucket, json_t **out) MUST_CHECK;
/* Lines for people. */
void bucket_print(const json_t *b);
