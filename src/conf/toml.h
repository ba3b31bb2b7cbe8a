/* toml: the part of TOML 1.0 that configuration needs. Tables, dotted keys, basic and
 * literal strings on one line, integers of 64 bits, booleans, arrays of strings,
 * comments. Keys are bare (A-Z a-z 0-9 _ -), quoted or not. Floats, dates, inline tables,
 * arrays of tables and strings over several lines are refused by name. What this parser
 * takes, every TOML 1.0 parser takes, and with the same values.
 *
 * Limits: 1 MiB of text, 4,096 values, keys of 128 bytes in 8 parts, strings of 4 KiB,
 * arrays of 64. Any thread; no I/O.
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

#define TOML_TEXT_MAX   (1u << 20)
#define TOML_VALUES_MAX 4096
#define TOML_KEY_MAX    128
#define TOML_PARTS_MAX  8
#define TOML_STRING_MAX 4096
#define TOML_ARRAY_MAX  64

enum toml_kind { TOML_STRING, TOML_INTEGER, TOML_BOOLEAN, TOML_ARRAY };

struct toml_value {
    enum toml_kind kind;
    unsigned line; /* from 1 */
    bool boolean;
    int64_t integer;
    struct span string;       /* bytes; may hold a NUL that was escaped */
    const struct span *items; /* strings of an array */
    size_t count;
};

/* Called for each value in the order of the text; `key` is the whole path, dotted. Both
 * are lent for the call. Anything but ERR_OK ends the parse; its sentence gets
 * "NAME:LINE: " in front. */
typedef enum err toml_fn(const char *key, const struct toml_value *value, void *arg,
                         struct errbuf *eb);

/* `name` stands in front of what is said about the text: "forebay.toml:12: ...". */
enum err toml_parse(const char *name, struct span text, toml_fn *on_value, void *arg,
                    struct errbuf *eb) MUST_CHECK;
