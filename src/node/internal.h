/* internal: what the files of the node room share. */
#pragma once
#include "api/api.h"
#include "api/audit.h"
#include "members/members.h"
#include "meta/cluster_key.h"
#include "node/folders.h"
#include "node/identity.h"
#include "node/node.h"
#include "rt/sync.h"

#define NODE_CREDENTIALS "credentials"

/* Everything that is open, in the order of opening; NULL: not open. */
struct node {
    const struct node_options *o;
    const char *state_path; /* the one of o->dirs that holds the state */
    struct node_folders folders;
    struct identity id;
    struct cluster_key key;  /* zeros: alone */
    struct seal_key sealing; /* of secrets in etcd */
    struct meta *meta;
    struct members *members; /* NULL: alone, as long as it is not in the map */
    char *name, *data_address, *peer_address, *peer_addr; /* owned; NULL: alone */
    uint16_t peer_port;
    struct nodes *nodes; /* NULL: alone */
    struct peers *peers;
    struct disks *disks;
    struct map_service *map;
    struct cloud *cloud;
    struct object_service *object;
    struct job_service *jobs;
    struct auth *auth;
    struct audit *audit;
    char *token_key; /* owned, secret; NULL: none */
    size_t token_key_len;
    struct api *api;
    struct tls_context *tls; /* NULL: plain HTTP */
    struct http_server *http;
    uint16_t port;
    char *credentials_path, *credentials_whole; /* as typed; from the root */
    bool keys_made, block_cache_fixed;
    struct rt_cond signalled;
    unsigned signals;
    struct fiber *draining; /* NULL: not yet */
    struct fiber *joining;  /* waits for etcd or for its place in the map; NULL: none */
    bool refused;           /* by the cluster, for good: the node ends */
    enum err rc;
    struct errbuf eb;

    /* copies.c, on loop 0. */
    struct {
        struct rt_cond wanted, written;
        uint64_t want,
            have;        /* number of changes made, and number of those in the copies */
        uint64_t number; /* written by this start */
        bool running, hangs;
    } copies;

    /* reload.c, on loop 0. */
    struct rt_cond hup;
    bool hup_asked;
    char tls_trouble[sizeof((struct errbuf *)0)
                         ->text]; /* the last sentence that was logged */
};

/* node.c */
/* The first fiber of a runtime: opens everything, serves until node_end(), closes. n->o is set; n->rc and n->eb say how it
 * went. node_serve() runs it, and so does the simulator. */
void node_run(void *node);
/* A fiber, as a signal starts it: the node drains and ends; called again, without waiting for requests. */
void node_end(void *node);
/* disks.c */
enum err node_find_state(struct node *n) MUST_CHECK;
enum err node_open_disks(struct node *n) MUST_CHECK;
/* Connects the disks to the map's list of buckets. Call after the map is open; ends before the map is stopped. */
void node_report_buckets(struct node *n);
/* cluster.c */
/* What the folder says of its cluster, and whether it is the one of the options. ERR_DENIED. Before anything else opens. */
enum err node_cluster_check(struct node *n) MUST_CHECK;
/* Key, etcd, a place in the map, the identity. While etcd does not answer it waits, until a signal. Before the disks. */
enum err node_cluster_open(struct node *n) MUST_CHECK;
/* The disks are open: their epoch is that of the map. */
enum err node_cluster_disks(struct node *n) MUST_CHECK;
/* cluster_user.c: adds the first user of the cluster, whose keys all nodes have; writes its file where there is none. */
enum err node_cluster_user(struct node *n, struct auth *a, struct errbuf *eb) MUST_CHECK;
/* It listens: it may order writes from the next beat on. */
void node_cluster_ready(struct node *n);
/* Leaves the map. NULL parts are fine. */
void node_cluster_leave(struct node *n);
/* peers.c: none has an effect on a node that is alone. */
/* The map of owners, from the map that was adopted. Before the services. */
void node_peers_open(struct node *n);
/* Serves other nodes. May switch. */
enum err node_peers_listen(struct node *n) MUST_CHECK;
/* Whether all live nodes have acknowledged the map may have changed. Does not switch. */
void node_peers_look(struct node *n);
/* job_options.may_begin: ERR_NOT_IMPLEMENTED where other nodes hold keys, too. */
enum err node_peers_may_begin_job(void *node, struct errbuf *eb);
/* copies.c */
/* Writes the current state to each disk that does not hold it; logs failures. Loop 0. May switch. */
void node_write_state_copies(struct node *n);
/* A fiber: writes the copies after each change, until it is cancelled. */
void node_state_copies_run(void *node);
/* Call after a durable change of the state. Returns when the copies contain it, or after a short timeout. Any loop. May switch. */
void node_state_changed(void *node);
/* No disk holds the state: restores it from the newest copy, on the disk with that copy. ERR_NOT_FOUND: there is none. */
enum err node_restore_state_copy(struct node *n) MUST_CHECK;
/* ERR_DENIED: by the newest copy on another disk, the disk that holds the state was rolled back. */
enum err node_check_state_copy(struct node *n) MUST_CHECK;
/* memory.c: fits the pools and caches into the available memory, before anything starts; and the number of connections into the
 * free descriptors, once everything else is open. */
void node_fit_memory(struct node_options *o, bool *block_cache_fixed);
void node_fit_descriptors(struct http_server_options *h);
/* A fiber: gives the block cache its target, up to four times a second (cache_policy.h). */
void node_watch_memory(void *node);

/* reload.c: what can change while the node serves. */

/* Loads the users from files: the file of the first start, and `more` unless NULL. May switch. */
enum err node_load_users(struct node *n, struct auth *a, const char *more,
                         struct errbuf *eb) MUST_CHECK;
enum err node_open_tls(struct node *n) MUST_CHECK;
void node_close_tls(struct node *n);
/* Fibers that watch for SIGHUP and for a changed certificate, until the group is cancelled. */
void node_watch(struct node *n, struct rt_group *g);
