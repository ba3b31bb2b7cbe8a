/* upload_expiry: aborts uploads in progress of buckets that want it: a setting of the bucket, map_bucket.upload_ttl_ms.
 *
 * The tier's fiber asks every few seconds whether a look is due; a look is a fiber of its own on loop 0. It comes so often
 * that an upload outlives its time by a tenth, or ten minutes, at most. In a cluster each node does so for the uploads on its
 * own disks. Ages are differences of the wall clock, so a clock that jumps ahead aborts uploads early: choose days, not
 * minutes.
 */
#pragma once
#include "object/internal.h"

void upload_expiry_start(struct object_service *s);
/* Starts a look if one is due. Loop 0. Does not wait. */
void upload_expiry_look(struct object_service *s);
/* Nothing where it was not started. May switch. */
void upload_expiry_stop(struct object_service *s);
