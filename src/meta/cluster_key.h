/* cluster_key: the secret that makes nodes one cluster, and what is derived from it.
 *
 * A text file of one line, 32 random bytes as 64 hex digits, readable by its owner only; `forebay cluster key` makes it.
 * Every node of the cluster has the same one. Each use has a key of its own, derived by HKDF-SHA256 with a label: what
 * leaks of one says nothing of the others. The labels:
 *
 *     forebay cluster authority    the private key of the cluster's certificate authority (room `peer`)
 *     forebay cluster seal         seals what is secret in etcd
 *     forebay cluster user         the keys of the first user, equal on all nodes
 *     forebay cluster proof        a value in etcd, by which a node sees that its key is the cluster's
 *
 * No state. Any thread; cluster_key_load() may switch.
 */
#pragma once
#include <stddef.h>

#include "base/err.h"
#include "base/span.h"
#include "wire/seal.h"

#define CLUSTER_KEY_LEN  32u
#define CLUSTER_KEY_TEXT (2 * CLUSTER_KEY_LEN + 2) /* hex digits, line end, NUL */

struct cluster_key {
    unsigned char bytes[CLUSTER_KEY_LEN];
};
/* ERR_DENIED: others may read the file; ERR_BAD_REQUEST: it is no such key. May switch. */
enum err cluster_key_load(const char *path, struct cluster_key *out,
                          struct errbuf *eb) MUST_CHECK;
/* The same from the bytes of the file. */
enum err cluster_key_parse(struct span text, struct cluster_key *out,
                           struct errbuf *eb) MUST_CHECK;
void cluster_key_text(const struct cluster_key *k, char out[CLUSTER_KEY_TEXT]);
void cluster_key_wipe(struct cluster_key *k);
/* `len` bytes that depend on the key, on `label` and on `context` (the cluster's name, say), up to 255 * 32. */
void cluster_key_derive(const struct cluster_key *k, const char *label,
                        struct span context, unsigned char *out, size_t len);
/* The key that seals what is secret in etcd. */
void cluster_key_seal(const struct cluster_key *k, struct seal_key *out);
