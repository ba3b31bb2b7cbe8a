/* shards: URLs of shards as training scripts write them (WebDataset), of one bucket: lists joined by "::", "pipe:COMMAND" with the
 * object's name in it, and http://HOST/BUCKET/KEY of the server in use. Braces stay as they are. Pure. */
#pragma once
#include "base/buf.h"
#include "cli/session.h"

/* Is it such a list, and not one s3:// name? */
bool shards_are(const char *text);
/* Puts the keys into `names`, a line each, and the bucket into *out. `endpoint` is the server's URL. ERR_BAD_REQUEST says which of them
 * names no object, or one of another bucket or server. */
enum err shards_read(const char *text, const char *endpoint, struct place *out,
                     struct buf *names, struct errbuf *eb) MUST_CHECK;
