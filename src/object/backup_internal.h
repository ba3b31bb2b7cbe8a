/* backup_internal: what backup_bucket.c and backup_body.c share. */
#pragma once
#include "object/backup.h"
#include "store/store_exported.h"

/* One object, version, upload or part: its record, and where its bytes are. */
struct backup_item {
    struct exported e;
    struct disks_key key;
    struct entry entry;
};

/* The record of an item without bytes, or before them. An error means that the receiver is gone. */
enum err backup_send_record(struct backup *b, const struct backup_item *s) MUST_CHECK;
/* Record and bytes. Nothing is sent before all was read and verified. ERR_NOT_FOUND: it was replaced, or its upload ended. */
enum err backup_send_body(struct backup *b, struct backup_item *s,
                          struct errbuf *eb) MUST_CHECK;
void backup_record_damage(struct backup *b, const struct backup_item *s, const char *why);
