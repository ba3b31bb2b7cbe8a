/* signature_cache: verified signatures: the next signature of the same client reuses their prepared hashes.
 *
 * Requests whose header lines differ only in the signature (http_head.lines_id) share an entry. When the gate has verified one of them, the
 * entry keeps the prepared hashes (sigv4_template) and the key. The next signature is computed and compared in constant
 * time, and the key is checked again. After changed users, an expired key or an old date the gate decides. The cache
 * rejects nothing and grants no rights.
 *
 * One table a loop, no lock. Secrets are wiped when they are overwritten and freed.
 */
#pragma once
#include "api/internal.h"

struct signature_cache;
struct signature_cache *signature_cache_new(void);
void signature_cache_free(struct signature_cache **sp); /* NULL is fine */

/* The key that signed this GET, or NULL: the gate decides. Valid until the fiber switches. */
const struct auth_key *signature_cache_find(const struct api *a,
                                            const struct http_request *http);
/* Keeps the signature that the gate has just verified, of key `k`. */
void signature_cache_keep(struct request *q, const struct sigv4_request *req,
                          const struct auth_key *k);
