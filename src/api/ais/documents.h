/* documents: what the documents of the cluster, of the node and of buckets are made of. */
#pragma once
#include "api/ais/ais.h"

/* cluster.c */
void ais_put_snode(struct json *j, const char *key, const struct request *q, bool target);
void ais_put_node_state(struct request *q, struct json *j, const char *key);
bool ais_asks_target(const struct request *q); /* by /v1/reverse, the target */
enum err ais_check_node(struct request *q)
    MUST_CHECK; /* the header Ais-Node-Id names a node */
/* Names of `what`, for tests; false: no more. */
bool ais_what_at(bool cluster, size_t index, const char **what);

/* config.c: what buckets have of the configuration, by default; kept as the bucket's properties of these names:
 * "section.name" or "section.part.name". */
#define AIS_SETTING_NAME 64
struct ais_setting {
    const char *section, *part; /* part NULL: none */
    const char *name;
    char type; /* 's' text, 'b' boolean, 'n' number */
    const char *value;
};
extern const struct ais_setting ais_settings[]; /* the last one has no section */
void ais_setting_name(const struct ais_setting *s, char out[AIS_SETTING_NAME]);
ais_operation ais_show_cluster_config, ais_show_node_config;
/* The sections that buckets copy, with the bucket's values; `b` NULL: those of the cluster. */
void ais_put_bucket_sections(struct json *j, const struct map_bucket *b);

/* node.c */
ais_operation ais_show_cluster_sysinfo, ais_show_cluster_stats,
    ais_show_cluster_mountpaths;
ais_operation ais_show_node_stats, ais_show_node_status, ais_show_node_sysinfo;
ais_operation ais_show_metric_names, ais_show_mountpaths, ais_show_disks, ais_show_log;
ais_operation ais_show_certificate;

/* props.c: the properties of a bucket, as an object. */
void ais_put_props(struct request *q, struct json *j, const char *key,
                   const struct map_bucket *b);
