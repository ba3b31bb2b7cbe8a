/* dump: pairs of a key and a value as bytes, one record each, for backups. docs/formats.md, section "Archives". Pure. */
#pragma once
#include "base/buf.h"
#include "meta/meta.h"

void meta_dump_put(struct buf *out, struct span key, struct span value);
/* Takes the first record off *dump; both spans lie in it. ERR_NOT_FOUND at the end; ERR_CORRUPT. */
enum err meta_dump_take(struct span *dump, struct span *key, struct span *value,
                        struct errbuf *eb) MUST_CHECK;
