#include "cli/verify.h"

#include "base/mem.h"

static bool
take_sum(struct verify *v, const struct s3_object_info *info)
{
    struct fault f = {0};
    enum checksum_kind kind;

    return info->checksum_value.len > 0 &&
           !span_case_is(info->checksum_type, "COMPOSITE") &&
           span_find(info->checksum_value, '-') == NULL &&
           checksum_of_name(info->checksum_name, &kind, &f) == ERR_OK &&
           checksum_parse(kind, info->checksum_value, &v->sum, &f) == ERR_OK;
}

/* A CRC of the whole takes a tenth of the time of an MD5, and finds what goes wrong on the way as well. */
static bool
is_quick(enum checksum_kind kind)
{
    return kind == CHECKSUM_CRC32 || kind == CHECKSUM_CRC32C ||
           kind == CHECKSUM_CRC64NVME;
}

void
verify_init(struct verify *v, const struct s3_object_info *info, uint64_t part_bytes)
{
    bool md5 = etag_parse(info->etag, v->md5, &v->parts) && info->sse_kms.len == 0;
    bool sum = take_sum(v, info);

    v->by = VERIFY_LENGTH;
    v->part_bytes = part_bytes;
    v->in_part = 0;
    if (sum && is_quick(v->sum.kind))
        v->by = VERIFY_SUM;
    else if (md5 && v->parts == 0)
        v->by = VERIFY_MD5;
    else if (md5 && part_bytes > 0 &&
             (info->size + part_bytes - 1) / part_bytes == v->parts)
        v->by = VERIFY_PARTS;
    else if (sum)
        v->by = VERIFY_SUM;
    v->digest = (struct digest){0};
    if (v->by == VERIFY_MD5 || v->by == VERIFY_PARTS)
        digest_init(&v->digest, DIGEST_MD5);
    if (v->by == VERIFY_PARTS)
        etag_multipart_init(&v->all);
    if (v->by == VERIFY_SUM)
        checksum_init(&v->running, v->sum.kind);
}

static void
end_part(struct verify *v)
{
    unsigned char md5[DIGEST_MAX];

    digest_end(&v->digest, md5);
    etag_multipart_add(&v->all, md5);
    digest_init(&v->digest, DIGEST_MD5);
    v->in_part = 0;
}

void
verify_add(struct verify *v, const void *at, size_t len)
{
    const char *p = at;

    if (v->by == VERIFY_MD5)
        digest_add(&v->digest, at, len);
    if (v->by == VERIFY_SUM)
        checksum_add(&v->running, at, len);
    while (v->by == VERIFY_PARTS && len > 0) {
        size_t n = MIN(len, v->part_bytes - v->in_part);

        digest_add(&v->digest, p, n);
        v->in_part += n;
        p += n;
        len -= n;
        if (v->in_part == v->part_bytes)
            end_part(v);
    }
}

bool
verify_end(struct verify *v)
{
    unsigned char md5[DIGEST_MAX];
    struct checksum_value got;
    char text[ETAG_TEXT_MAX];

    switch (v->by) {
    case VERIFY_MD5:
        digest_end(&v->digest, md5);
        return memcmp(md5, v->md5, 16) == 0;
    case VERIFY_PARTS:
        if (v->in_part > 0)
            end_part(v);
        digest_fini(&v->digest);
        etag_multipart_end(&v->all, md5, text);
        return memcmp(md5, v->md5, 16) == 0;
    case VERIFY_SUM:
        checksum_end(&v->running, &got);
        return checksum_eq(&got, &v->sum);
    case VERIFY_LENGTH:
        break;
    }
    return true;
}

enum err
verify_refuse(const struct verify *v, const struct s3_object_info *info,
              struct errbuf *eb)
{
    if (v->by == VERIFY_SUM)
        return err_set(eb, ERR_BAD_DIGEST,
                       "the bytes that came do not match the object's %s \"%.*s\"",
                       checksum_name(v->sum.kind), SPAN_ARG(info->checksum_value));
    return err_set(eb, ERR_BAD_DIGEST,
                   "the bytes that came do not match the ETag \"%.*s\"",
                   SPAN_ARG(info->etag));
}

void
verify_fini(struct verify *v)
{
    digest_fini(&v->digest);
    if (v->by == VERIFY_PARTS)
        digest_fini(&v->all.digest);
    if (v->by == VERIFY_SUM)
        checksum_fini(&v->running);
    v->by = VERIFY_LENGTH;
}
