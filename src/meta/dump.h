/* dump: pairs of a key and a value as bytes, one record each, for backups and copies of a node's state. docs/formats.md, section "Archives". */
#pragma once
#include "base/buf.h"
#include "meta/meta.h"
#include "rt/file.h"

void meta_dump_put(struct buf *out, struct span key, struct span value);
/* The file `name` of `dir` under the key "file:PREFIXNAME"; one that is not there is left out. Its bytes do not stay in
 * memory. */
enum err meta_dump_file(struct buf *out, struct rt_dir *dir, const char *prefix,
                        const char *name, struct errbuf *eb) MUST_CHECK;
/* All files of `dir`. */
enum err meta_dump_files(struct buf *out, struct rt_dir *dir, const char *prefix,
                         struct errbuf *eb) MUST_CHECK;
/* Takes the first record off *dump; both spans lie in it. ERR_NOT_FOUND at the end; ERR_CORRUPT. */
enum err meta_dump_next(struct span *dump, struct span *key, struct span *value,
                        struct errbuf *eb) MUST_CHECK;
