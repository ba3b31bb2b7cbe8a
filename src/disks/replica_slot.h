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
