/* json_get: members of an object that jansson has read, with an answer for those that are not there. */
#pragma once
#include <jansson.h>
#include <stdint.h>

/* 0: not there, no whole number, or below zero. */
static inline uint64_t
json_get_u64(const json_t *o, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(o, key));

    return n > 0 ? (uint64_t)n : 0;
}
/* Borrowed; `otherwise` when it is not there, or no text. */
static inline const char *
json_get_text(const json_t *o, const char *key, const char *otherwise)
{
    const char *t = json_string_value(json_object_get(o, key));

    return t != NULL ? t : otherwise;
}
