/* sim_names: the entries of a simulated directory in one state; sim_disk.h has the model. */
#pragma once

struct sim_node;

struct sim_name {
    char *name;            /* owned */
    struct sim_node *node; /* owns a reference */
};
struct sim_names {
    struct sim_name *at; /* owned; in byte order */
    unsigned count, room;
};

struct sim_node *sim_names_find(const struct sim_names *s,
                                const char *name); /* borrowed; NULL: none */
void sim_names_set(struct sim_names *s, const char *name,
                   struct sim_node *node); /* adds or replaces */
/* Removes it, but only when it still means `node`. */
void sim_names_clear(struct sim_names *s, const char *name, const struct sim_node *node);
void sim_names_copy(struct sim_names *dst, const struct sim_names *src);
void sim_names_fini(struct sim_names *s);
