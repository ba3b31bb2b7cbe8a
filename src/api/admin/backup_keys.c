/* The keys of users and remotes, sealed under a passphrase: what a backup leaves out. */
#include <openssl/crypto.h>
#include <stdlib.h>

#include "api/admin/backup.h"
#include "api/audit.h"
#include "base/mem.h"
#include "meta/dump.h"
#include "rt/loop.h"
#include "wire/seal.h"

/* In the clear: the passphrase seals all of it, and another node has another key. */
static enum err
put_set(void *out, const char *name, struct span plain, struct errbuf *eb)
{
    char *key = xasprintf("file:secrets/%s", name);

    (void)eb;
    meta_dump_put(out, span_of(key), plain);
    free(key);
    return ERR_OK;
}

static enum err
gather_keys(struct request *q, struct buf *out, struct errbuf *eb)
{
    enum err rc = backup_dump_meta(q, true, out, eb);

    if (rc == ERR_OK)
        rc = meta_dump_file(out, q->api->options.dot, "", "credentials", eb);
    if (rc == ERR_OK)
        rc = secrets_each(cloud_secrets(q->api->options.cloud), put_set, out, eb);
    return rc;
}

struct seal_job {
    struct span passphrase, plain;
    struct buf *out;
    struct errbuf eb;
    enum err rc;
};

static void
seal_work(void *arg)
{
    struct seal_job *j = arg;

    j->rc = seal(j->passphrase, j->plain, j->out, &j->eb);
}

/* The body of the request is the passphrase. */
enum err
admin_backup_keys(struct request *q)
{
    struct seal_job job = {.rc = ERR_OK};
    struct buf plain, sealed;
    struct errbuf eb = {{0}};
    enum err rc;

    if (!q->http->is_tls && !q->http->is_loopback)
        return fault_set(&q->fault, S3_AccessDenied,
                         "Keys are given out over TLS or on loopback only");
    rc = http_body_all(q->http, SEAL_PASSPHRASE_MAX, &job.passphrase, &eb);
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    buf_init(&plain, SEAL_MAX);
    buf_init(&sealed, SEAL_MAX + KIB(4));
    rc = gather_keys(q, &plain, &eb);
    job.plain = buf_span(&plain);
    job.out = &sealed;
    if (rc == ERR_OK)
        rc = rt_blocking(seal_work, &job, DEADLINE_NEVER);
    if (rc == ERR_OK && job.rc != ERR_OK) {
        rc = job.rc;
        eb = job.eb;
    }
    if (plain.len > 0)
        OPENSSL_cleanse(plain.at, plain.len);
    OPENSSL_cleanse((char *)(uintptr_t)job.passphrase.at, job.passphrase.len);
    buf_fini(&plain);
    AUDIT_CHANGE(q, "backup.keys", rc, L_TEXT("target", "keys of users and remotes"));
    if (rc == ERR_OK) {
        request_put_ids(q);
        http_header(q->http, "content-type", SPAN("application/octet-stream"));
        http_header(q->http, "cache-control", SPAN("no-store"));
        http_reply(q->http, 200, buf_span(&sealed));
    }
    buf_fini(&sealed);
    return rc == ERR_OK ? ERR_OK : fault_from(q, rc, &eb);
}
