/* api: the protocols on the server's port: S3 at `/` and `/s3`, the admin API under `/_/`.
 *
 * The handler of the HTTP server. Each request is one fiber that runs from the gate through a route to the object
 * service and back. Knows routes and documents, touches no disk.
 */
#pragma once
#include <stdatomic.h>
#include <stdbool.h>

#include "auth/auth.h"
#include "http/server.h"
#include "job/job.h"
#include "map/map.h"
#include "members/members.h"
#include "nodes/nodes.h"
#include "object/object.h"
#include "peer/peer.h"
#include "wire/sigv4.h"

#define API_DOMAINS_MAX 16

struct api_options {
    struct auth *auth;
    struct map_service *map;
    struct object_service *object;
    struct cloud *cloud;
    struct job_service *jobs;
    struct disks *disks; /* for stat, bucket records, disk commands */
    /* For backups: the node's state, and the folders of its keys. */
    struct meta *meta;
    struct rt_dir *dot, *secrets;
    struct rt_dir *shards;      /* of indexes of shards; NULL: none is kept */
    uint64_t shard_index_bytes; /* in that folder; 0: none is kept */
    const char *region;         /* reported as the location of buckets; NULL: us-east-1 */
    const char
        *domains[API_DOMAINS_MAX]; /* base domains of virtual-host style, lower case */
    unsigned domain_count;
    const char *
        credentials; /* path of the credentials file of the first start; /_/stat shows it */
    bool bench_objects;  /* serve /_/bench/SIZE */
    bool access_log;     /* one log line for each request */
    uint64_t skew_s;     /* tolerated difference of a client's clock; 0: 15 minutes */
    struct audit *audit; /* borrowed; NULL: audit lines go to the log */
    uint64_t block_cache_bytes; /* most of the block cache; bounds the response cache */
    bool block_cache_fixed;     /* an option says so, not the machine */
    uint8_t cluster_id[16];     /* for ids of the AIS API */
    uint16_t node;
    struct members *members; /* borrowed; NULL: this node is alone */
    /* "HOST:PORT" by which AIS clients reach this node; NULL: as they just did. */
    const char *advertise;
    struct nodes *nodes;   /* borrowed; NULL: this node is alone */
    struct span token_key; /* signs bearer tokens of the AIS API; empty: none is taken */
};
struct api; /* one for all loops */

enum err api_new(const struct api_options *o, struct api **out,
                 struct errbuf *eb) MUST_CHECK;
void api_free(struct api **ap);
/* Fills the callbacks of a server; `a` must outlive it. */
void api_handler(struct api *a, struct http_handler *out);
/* Of a cluster: fills what serves requests of other nodes; `arg` is the api's. */
void api_peer_handler(struct api *a, struct peer_options *out);
/* By which it passes requests on; borrowed, until api_free(). After peer_start(), before a client's request. */
void api_set_peers(struct api *a, struct peers *p);
/* Sets the answer of /_/readyz; false from the start of a drain. */
void api_set_ready(struct api *a, bool ready);
void api_set_access_log(struct api *a, bool on);
