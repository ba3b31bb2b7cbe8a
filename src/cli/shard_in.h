/* shard_in: a shard as the verbs `shard` read it: a file, or an object by ranges of one version, which resume where they broke. */
#pragma once
#include "cli/local.h"
#include "cli/session.h"
#include "shard/walk.h"

struct shard_in {
    struct shard_input in;
    struct session *s; /* borrowed */
    struct place place;
    enum shard_format format;
    char *etag; /* owned: of an object; NULL: a file */
    struct local file;
    struct iobuf *buf;    /* owned */
    struct s3_call *call; /* in flight; NULL */
    struct arena *arena;  /* owned: of that call */
    uint64_t at, left;    /* of the range */
};
/* ERR_BAD_REQUEST: the name is not that of an archive. On ERR_OK shard_in_close() follows. */
enum err shard_in_open(struct session *s, const char *text, struct shard_in *out,
                       struct errbuf *eb) MUST_CHECK;
void shard_in_close(struct shard_in *i);
/* The server's index of it in a form of `?shard-index=`, in the arena. ERR_NOT_FOUND: the server has none, of this version. */
enum err shard_in_index(struct shard_in *i, const char *form, struct arena *a,
                        struct span *out, struct errbuf *eb) MUST_CHECK;
