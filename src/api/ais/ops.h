/* ops: the operations of the AIS API, one function each. */
#pragma once
#include "api/ais/ais.h"

/* cluster.c */
ais_operation ais_health, ais_show_node, ais_show_cluster;
/* make.c, props.c */
ais_operation ais_create_bucket, ais_destroy_bucket, ais_evict_bucket, ais_list_buckets;
ais_operation ais_head_bucket, ais_patch_bucket, ais_reset_bucket;
/* Makes a native bucket, for jobs that make their destination. */
enum err ais_make_bucket(struct request *q, const struct ais_bucket *b) MUST_CHECK;
/* Removes q->bucket with all that is in it. May switch. */
enum err ais_remove_bucket(struct request *q) MUST_CHECK;
void ais_put_props_header(struct request *q);
enum err ais_check_props(struct request *q, const json_t *value) MUST_CHECK;
enum err ais_set_props(struct request *q, const json_t *value) MUST_CHECK;
auth_rights ais_bucket_access(const struct map_bucket *b); /* its property "access" */
/* summary.c, list.c */
ais_operation ais_head_summary, ais_summary, ais_list_objects;
/* misc.c */
ais_operation ais_do_nothing, ais_set_config, ais_not_built, ais_evict_object;
/* head.c, put.c, append.c, change.c */
ais_operation ais_head_object, ais_put_object, ais_delete_object, ais_append_object;
ais_operation ais_set_custom, ais_copy_to, ais_rename_object, ais_check_lock,
    ais_move_bucket;
/* parts.c */
ais_operation ais_create_upload, ais_put_part, ais_complete_upload, ais_abort_upload;
/* Begins an upload with the metadata of an object, or none. */
enum err ais_begin_upload(struct request *q, const struct object_meta *of,
                          struct span *id) MUST_CHECK;
/* Completes an upload with the parts of these numbers, which must be all of them. */
struct object_complete_part;
enum err ais_finish_upload(struct request *q, struct span id,
                           struct object_complete_part *parts, uint32_t count,
                           struct object_info *info) MUST_CHECK;
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
/* download.c */
ais_operation ais_download_start, ais_download_show, ais_download_abort,
    ais_download_remove;
/* dsort.c, dsort_show.c */
ais_operation ais_dsort_start, ais_dsort_show, ais_dsort_abort, ais_dsort_remove;
/* promote.c */
ais_operation ais_promote, ais_blob_download, ais_make_copies, ais_no_erasure_code;
/* multi.c */
ais_operation ais_delete_many, ais_evict_many, ais_prefetch_many, ais_copy_many;
ais_operation ais_copy_bucket, ais_archive_many, ais_bucket_upkeep;
