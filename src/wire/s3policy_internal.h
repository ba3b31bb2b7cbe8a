/* s3policy_internal: a parsed policy. Only for s3policy*.c. */
#pragma once
#include "wire/s3policy.h"

enum operator_kind {
    OP_EQUALS,
    OP_EQUALS_IGNORE_CASE,
    OP_LIKE,
    OP_ADDRESS,
    OP_BOOL,
    OP_NUMBER_EQUALS,
    OP_NUMBER_LESS,
    OP_NUMBER_LESS_EQUALS,
    OP_NUMBER_GREATER,
    OP_NUMBER_GREATER_EQUALS,
    OP_IS_ABSENT,
};
struct texts {
    char **at; /* owned */
    uint32_t count;
};
struct condition {
    enum operator_kind kind;
    bool negated, if_exists;
    char *key; /* owned; lower case but for the name of a tag */
    struct texts values;
};
struct statement {
    bool deny, everybody, not_action, not_resource;
    struct texts principals, actions, resources; /* resources without "arn:aws:s3:::" */
    struct condition *conditions;
    uint32_t condition_count;
};
struct s3policy {
    struct statement *at;
    uint32_t count;
    bool asks_tags, asks_request_tags;
};

/* ADDRESS or ADDRESS/BITS; false: it is none. IPv4 is kept as its mapped IPv6 address. */
bool s3policy_network(const char *text, uint8_t out[16], unsigned *bits);
