/* replica_slot: the slots and the disks in them. Loop 0 (the control loop). */
#pragma once
#include "disks/internal.h"

/* Allocates the next slot, unpublished. The caller sets its state. Takes the disk. */
struct replica_slot *replica_slot_new(struct disks *ds, const uint8_t id[16],
                                      const char *path, uint64_t weight,
                                      struct store *store);
/* Opens the disk at `path` into the next slot, and adds it to the list (in memory). May switch. */
enum err replica_slot_open(struct disks *ds, const char *path, bool node_state,
                           struct errbuf *eb) MUST_CHECK;
/* Makes the next slot visible to every loop. */
void replica_slot_publish(struct disks *ds);
/* Closes the disk of the next slot, which was not published. May switch. */
void replica_slot_abandon(struct disks *ds);
/* A disk comes in: marks disks that are out as missed where keys get another place, makes every look-up read all disks and
 * every write lock its key, and waits for earlier changes. May switch. */
void replica_set_open(struct disks *ds);

/* ---- replica_return.c ---- */

/* The slot in which the disk with this id went out of service. False: there is none. */
bool replica_find_out(const struct disks *ds, const uint8_t id[16], unsigned *out);
/* Takes the disk of slot `i` back, now at `path`, into a new slot. ERR_BUSY: calls are still inside the failed store;
 * ERR_DENIED: it was rolled back, or held the node's state. On error it stays out. May switch. */
enum err replica_take_back(struct disks *ds, unsigned i, const char *path,
                           const struct store_identity *is, struct errbuf *eb) MUST_CHECK;
