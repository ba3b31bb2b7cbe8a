/* What the files of this room share: the table as data, and a value. */
#pragma once
#include "conf/conf.h"

struct conf_row {
    const char *name;
    const char *fallback; /* the default, as text */
    const char *choices;
    const char *help;
    uint64_t least, most;
    enum conf_type type;
    bool live; /* a reload is enough */
};
extern const struct conf_row conf_rows[OPT_COUNT_];

struct conf_value {
    enum conf_origin origin;
    char *where;     /* owned */
    uint64_t number; /* of all types that have one; of ENUM the index */
    char *text;      /* owned; of TEXT, else NULL */
    char **items;    /* owned; of LIST */
    size_t count;
};
struct conf {
    struct conf_value values[OPT_COUNT_];
};

/* Parses a value in the syntax of environment and flags into v; the error message gives the reason. */
enum err value_parse(enum conf_option id, struct span text, struct conf_value *v,
                     struct errbuf *eb) MUST_CHECK;
/* Checks the limits of the row. */
enum err value_check(enum conf_option id, const struct conf_value *v,
                     struct errbuf *eb) MUST_CHECK;
void value_fini(struct conf_value *v);
/* Writes the value in TOML: 64MiB, "10s", true, ["a", "b"]. */
void value_put(struct buf *out, enum conf_option id, const struct conf_value *v);
/* Writes a number of the row's type with its unit: 64MiB, 10s, 4096. */
/* A SIZE that says "auto". */
bool value_is_auto(enum conf_option id, const struct conf_value *v);
void value_put_number(struct buf *out, enum conf_type type, uint64_t number);
/* The n-th of "a|b|c"; empty beyond the last. */
struct span value_choice(const char *choices, unsigned n);
/* Fills in the error for an unknown option, with a suggestion. */
enum err conf_unknown(struct span name, struct errbuf *eb);
