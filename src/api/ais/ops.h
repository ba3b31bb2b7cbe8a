/* ops: the operations of the AIS API, one function each. */
#pragma once
#include "api/ais/ais.h"

/* cluster.c */
ais_operation ais_health, ais_show_node, ais_show_cluster;
/* get.c */
ais_operation ais_get_object;
/* Headers of an object of q->bucket. */
void ais_put_checksum(struct request *q, const struct object_info *info);
void ais_put_atime(struct request *q, const struct object_info *info);
void ais_put_version(struct request *q, const struct object_info *info);
void ais_put_custom(struct request *q, const struct object_info *info);
/* archive.c, batch.c */
ais_operation ais_get_member, ais_get_matching, ais_put_member, ais_get_batch;
/* jobs.c */
ais_operation ais_job_status, ais_job_status_all, ais_jobs_running, ais_job_snapshots;
ais_operation ais_job_start, ais_job_stop;
/* multi.c */
ais_operation ais_delete_many, ais_evict_many, ais_prefetch_many, ais_copy_many;
ais_operation ais_copy_bucket, ais_archive_many, ais_bucket_upkeep;
