/* signers: who signed like this before, so that the next signature of a client costs what changes in it.
 *
 * Requests whose header lines are the same bytes but for the signature (http_head.lines_id) make the same claim. When
 * the gate has found one of them right, the claim is remembered with its prepared hashes (sigv4_template) and the key it
 * belongs to; the next one is hashed, compared in constant time, and its key looked at again: changed users, an ended
 * key or a date that no longer counts mean that the gate is asked. Nothing is refused here, and nothing is admitted:
 * rights are for whoever asks.
 *
 * A table a loop, no lock. Secrets are wiped when they are overwritten and freed.
 */
#pragma once
#include "api/internal.h"

struct signature_cache;
struct signature_cache *signature_cache_new(void);
void signature_cache_free(struct signature_cache **sp); /* NULL is fine */

/* The key that signed this GET, or NULL: ask the gate. Lent until the fiber switches. */
const struct auth_key *signature_cache_find(const struct api *a,
                                            const struct http_request *http);
/* The gate has just found the signature right: by `k`. */
void signature_cache_keep(struct request *q, const struct sigv4_request *req,
                          const struct auth_key *k);
