/* cluster_move: a node that ran alone creates a cluster with what it has. */
#pragma once
#include "node/internal.h"

/* The folder has an identity and belongs to no cluster. Where the cluster exists already, it must be the one of this
 * identity: an earlier start was broken off. Else its buckets, users and jobs are written to etcd, which must have none of
 * these names; *alone: the caller creates the cluster. ERR_DENIED, in words. May be repeated. May switch. */
enum err cluster_move_in(struct node *n, bool *alone) MUST_CHECK;
