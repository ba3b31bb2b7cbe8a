#include "object/proof.h"

#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "client/s3.h"

bool
proof_etag_is_md5(const struct object_meta *m, const struct s3_object_info *from)
{
    return m->etag_text.len == 0 && m->parts == 0 && from->sse_kms.len == 0 &&
           (from->sse.len == 0 || span_is(from->sse, "AES256"));
}

bool
proof_is_possible(const struct object_info *info)
{
    return info->etag_is_md5 || info->meta.checksum_algorithm != 0;
}

void
proof_begin(struct proof *p, struct object_service *s, const struct object_info *info)
{
    const struct object_meta *m = &info->meta;

    assert(m->checksum.len <= sizeof p->want_sum);
    *p = (struct proof){.s = s, .size = info->size};
    checksum_init(&p->sum, (enum checksum_kind)m->checksum_algorithm);
    if (m->checksum_algorithm != 0) {
        assert(m->checksum.len > 0);
        memcpy(p->want_sum, m->checksum.at, m->checksum.len);
        p->want_sum_len = m->checksum.len;
    }
    p->is_md5 = info->etag_is_md5 && m->checksum_algorithm == 0;
    if (p->is_md5) {
        memcpy(p->want_md5, m->md5, sizeof p->want_md5);
        hash_stream_begin(s, &p->md5);
    }
}

void
proof_add(struct proof *p, const void *data, size_t len)
{
    assert(p->s != NULL);
    assert(len <= p->size - p->got);
    p->got += len;
    checksum_add(&p->sum, data, len);
    if (p->is_md5)
        hash_stream_add(p->s, &p->md5, data, len);
}

bool
proof_lags(const struct proof *p)
{
    return p->is_md5 && p->md5.len > 0;
}

void
proof_drain(struct proof *p)
{
    if (p->is_md5)
        hash_stream_drain(p->s, &p->md5, false);
    assert(!proof_lags(p));
}

enum err
proof_end(struct proof *p, struct span key, struct errbuf *eb)
{
    struct checksum_value got;
    unsigned char md5[16];
    bool wrong = false;

    assert(p->got == p->size);
    proof_drain(p);
    checksum_end(&p->sum, &got);
    if (p->want_sum_len > 0)
        wrong = memcmp(got.bytes, p->want_sum, p->want_sum_len) != 0;
    if (p->is_md5) {
        md5_end(&p->md5.md5, md5);
        wrong = wrong || memcmp(md5, p->want_md5, sizeof md5) != 0;
    }
    if (!wrong)
        return ERR_OK;
    metric_add(M_CHECKSUM_FAILURES, 1, 1);
    return err_set(
        eb, ERR_BACKEND,
        "the backend's bytes of \"%.*s\" do not match its checksum: nothing was kept",
        SPAN_ARG(key));
}

void
proof_fini(struct proof *p)
{
    checksum_fini(&p->sum);
    hash_stream_end(&p->md5);
}

enum err
proof_read(struct proof *p, struct span key, struct iobuf *buf, proof_source *source,
           void *arg, size_t *n, struct errbuf *eb)
{
    uint64_t left = p->size - p->got;
    bool last = left <= HELD_BACK;
    uint64_t most = last ? left : MIN(left - HELD_BACK, buf->room);
    enum err rc = ERR_OK;

    assert(left > 0);
    assert(most <= buf->room);
    for (*n = 0; rc == ERR_OK && (*n == 0 || (last && *n < most));) {
        size_t more = 0;

        rc = source(arg, buf->at + *n, most - *n, &more, eb);
        assert(rc != ERR_OK || (more > 0 && more <= most - *n));
        *n += rc == ERR_OK ? more : 0;
    }
    if (rc != ERR_OK)
        return rc;
    proof_add(p, buf->at, *n);
    proof_drain(p);
    return last ? proof_end(p, key, eb) : ERR_OK;
}
