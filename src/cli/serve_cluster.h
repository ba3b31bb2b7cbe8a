/* serve_cluster: the options of `forebay serve` that make a node one of a cluster. */
#pragma once
#include "conf/conf.h"
#include "node/node.h"

/* Texts that are made of options; they live as long as the node. */
struct serve_cluster {
    char *etcd, *peer_addr, *node_default; /* owned */
};
/* ERR_BAD_REQUEST. `o` has its address and port already. */
enum err serve_cluster_take(const struct conf *c, struct node_options *o,
                            struct serve_cluster *out, struct errbuf *eb) MUST_CHECK;
void serve_cluster_fini(struct serve_cluster *s);
/* "127.0.0.1:9000", "[::1]:9000", ":9000", "9000", "unix:/path". The caller frees *addr. `option`: how errors name it. */
enum err serve_split_address(const char *option, const char *text, char **addr,
                             uint16_t *port, struct errbuf *eb) MUST_CHECK;
