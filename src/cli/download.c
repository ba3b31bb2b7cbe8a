/* download: GET, verified. */
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/mem.h"
#include "cli/transfer.h"
#include "rt/loop.h"
#include "wire/etag.h"

#define PIECE (256u << 10)

static enum err
check_digest(struct digest *md5, const struct s3_object_info *info, struct errbuf *eb)
{
    unsigned char want[16], got[DIGEST_MAX];
    unsigned parts = 0;

    digest_end(md5, got);
    if (!etag_parse(info->etag, want, &parts) || parts != 0 || info->sse_kms.len > 0)
        return ERR_OK; /* not an MD5: the length had to do */
    if (memcmp(want, got, sizeof want) == 0)
        return ERR_OK;
    return err_set(eb, ERR_BAD_DIGEST,
                   "the bytes that came do not match the ETag \"%.*s\"",
                   SPAN_ARG(info->etag));
}

enum err
transfer_get(struct session *s, const struct place *from, take_piece *take, void *arg,
             struct progress *p, struct errbuf *eb)
{
    struct s3_get get = {.bucket = from->bucket, .key = from->key};
    struct arena *a = arena_new(KIB(16), MIB(1));
    struct s3_object_info info;
    struct s3_call *call = NULL;
    struct iobuf *buf = NULL;
    struct s3_failure f;
    struct digest md5;
    uint64_t at = 0;
    size_t n = 0;
    enum err rc = s3_get_begin(s->s3, &get, a, &info, &call, &f, eb);

    digest_init(&md5, DIGEST_MD5);
    if (rc == ERR_OK)
        rc = iobuf_get(PIECE, &buf);
    if (rc == ERR_OK && p->total_bytes == 0 && p->total <= 1)
        p->total_bytes = info.size;
    while (rc == ERR_OK) {
        rc = s3_read(call, buf->at, buf->room, &n, eb);
        if (rc != ERR_OK || n == 0)
            break;
        digest_add(&md5, buf->at, n);
        rc = take(arg, at, buf, (uint32_t)n, eb);
        at += n;
        progress_bytes(p, n);
    }
    if (rc == ERR_OK)
        rc = check_digest(&md5, &info, eb);
    digest_fini(&md5);
    iobuf_drop(&buf);
    s3_end(&call);
    arena_free(&a);
    return rc;
}

static enum err
to_file(void *arg, uint64_t offset, struct iobuf *piece, uint32_t len, struct errbuf *eb)
{
    struct local *l = arg;

    return rt_write(l->file, offset, piece, 0, len, RT_WRITE, eb);
}

struct write_job {
    const char *at;
    size_t len;
    bool failed;
};

static void
write_work(void *arg)
{
    struct write_job *j = arg;

    while (j->len > 0) {
        ssize_t n = write(1, j->at, j->len);

        if (n <= 0) {
            j->failed = true;
            return;
        }
        j->at += n;
        j->len -= (size_t)n;
    }
}

static enum err
to_stdout(void *arg, uint64_t offset, struct iobuf *piece, uint32_t len,
          struct errbuf *eb)
{
    struct write_job j = {.at = piece->at, .len = len};
    enum err rc = rt_blocking(write_work, &j, DEADLINE_NEVER);

    (void)arg;
    (void)offset;
    if (rc != ERR_OK)
        return err_set(eb, rc, "interrupted");
    return j.failed ? err_set(eb, ERR_CLOSED, "standard output takes no more") : ERR_OK;
}

enum err
transfer_down(struct session *s, const struct place *from, const char *path,
              struct progress *p, struct errbuf *eb)
{
    struct local l;
    enum err rc;

    if (strcmp(path, "-") == 0)
        return transfer_get(s, from, to_stdout, NULL, p, eb);
    rc = local_write_open(path, &l, eb);
    if (rc != ERR_OK)
        return rc;
    rc = transfer_get(s, from, to_file, &l, p, eb);
    if (rc == ERR_OK)
        rc = local_keep(&l, eb);
    local_close(&l);
    return rc;
}
