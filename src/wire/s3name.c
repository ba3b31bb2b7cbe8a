#include "wire/s3name.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "base/uri.h"
#include "base/utf8.h"

/* ---- Host ---- */

/* Without the port; "[::1]:9000" -> "[::1]". */
static struct span
s3name_without_port(struct span host)
{
    const char *end;

    if (host.len > 0 && host.at[0] == '[')
        end = span_find(host, ']');
    else
        end = span_find(host, ':');
    if (end == NULL)
        return host;
    return (struct span){host.at, (size_t)(end - host.at) + (*end == ']')};
}

/* Four numbers up to 255 between dots. */
static bool
is_ipv4(struct span s)
{
    unsigned numbers = 1, value = 0, digits = 0;

    for (size_t i = 0; i < s.len; i++) {
        if (s.at[i] == '.') {
            if (digits == 0)
                return false;
            numbers++;
            value = digits = 0;
        } else if (s.at[i] >= '0' && s.at[i] <= '9' && digits < 3) {
            value = value * 10 + (unsigned)(s.at[i] - '0');
            digits++;
        } else {
            return false;
        }
        if (value > 255)
            return false;
    }
    return numbers == 4 && digits > 0;
}

/* What stands in front of ".domain"; empty when host is the domain or ends otherwise. */
static struct span
in_front_of(struct span host, struct span domain)
{
    struct span front = {host.at, 0};

    if (domain.len == 0 || host.len < domain.len + 2)
        return front;
    front.len = host.len - domain.len - 1;
    if (host.at[front.len] != '.' ||
        strncasecmp(host.at + front.len + 1, domain.at, domain.len) != 0)
        front.len = 0;
    return front;
}

/* The bucket in Host, empty in path style. The longest domain that fits counts: of "lan" and
 * "s3.lan", "b.s3.lan" belongs to the second, and "s3.lan" is itself a domain. */
static struct span
bucket_of_host(struct span host, const struct span *domains, size_t count)
{
    struct span name = s3name_without_port(host);
    struct span best = {name.at, 0};

    if (name.len == 0 || name.at[0] == '[')
        return best;
    if (name.at[name.len - 1] == '.') /* "s3.lan." is "s3.lan" */
        name.len--;
    for (size_t i = 0; i < count; i++) {
        struct span front = in_front_of(name, domains[i]);

        if (name.len == domains[i].len &&
            strncasecmp(name.at, domains[i].at, name.len) == 0)
            return (struct span){name.at, 0};
        if (front.len > 0 && (best.len == 0 || front.len < best.len))
            best = front;
    }
    if (best.len > 0 && is_ipv4(name)) /* of a domain that is a number */
        best.len = 0;
    return best;
}

bool
s3_bucket_in_host(struct span host, const struct span *domains, size_t domain_count)
{
    return bucket_of_host(host, domains, domain_count).len > 0;
}

/* ---- keys ---- */

enum err
s3_key_check(struct span key, struct arena *a, struct fault *f)
{
    char *size;

    if (key.len > S3_KEY_MAX) {
        fault_set(f, S3_KeyTooLongError, NULL);
        size = arena_try(a, 24);
        if (size != NULL) {
            snprintf(size, 24, "%zu", key.len);
            fault_add(f, "Size", span_of(size));
        }
        fault_add(f, "MaxSizeAllowed", SPAN("1024"));
        return ERR_BAD_REQUEST;
    }
    if (key.len == 0 || !utf8_valid(key))
        return fault_set(f, S3_InvalidURI,
                         key.len == 0 ? "A key has at least one byte."
                                      : "A key has to be valid UTF-8.");
    return ERR_OK;
}

static enum err
s3name_decode(struct span raw, struct arena *a, struct span *out, struct fault *f)
{
    char *room;
    int len;

    *out = raw;
    if (span_find(raw, '%') == NULL)
        return ERR_OK;
    room = arena_try(a, raw.len);
    if (room == NULL)
        return fault_set(f, S3_RequestHeaderSectionTooLarge, NULL);
    len = uri_decode(raw, room);
    if (len < 0)
        return fault_set(f, S3_InvalidURI, NULL);
    *out = (struct span){room, (size_t)len};
    return ERR_OK;
}

/* "bucket/key", decoded: the first slash divides. */
static void
s3name_divide(struct span path, struct span *bucket, struct span *key)
{
    const char *slash = span_find(path, '/');

    *bucket = path;
    *key = (struct span){path.at + path.len, 0};
    if (slash != NULL) {
        bucket->len = (size_t)(slash - path.at);
        *key = span_from(path, bucket->len + 1);
    }
}

enum err
s3_name_split(struct span path, struct span host, const struct span *domains,
              size_t domain_count, struct arena *a, struct s3_name *out, struct fault *f)
{
    struct span in_host = bucket_of_host(host, domains, domain_count);
    struct span decoded;
    char *lower;
    enum err rc;

    *out = (struct s3_name){.bucket = {"", 0}, .key = {"", 0}};
    if (path.len == 0 || path.at[0] != '/')
        return fault_set(f, S3_InvalidURI, NULL);
    rc = s3name_decode(span_from(path, 1), a, &decoded, f);
    if (rc != ERR_OK)
        return rc;
    if (in_host.len == 0) {
        s3name_divide(decoded, &out->bucket, &out->key);
        if (out->bucket.len == 0 &&
            decoded.len > 0) /* else it would be the list of buckets */
            return fault_set(f, S3_InvalidURI,
                             "The path names no bucket: it begins with two slashes");
    } else {
        lower = arena_try(a, in_host.len);
        if (lower == NULL)
            return fault_set(f, S3_RequestHeaderSectionTooLarge, NULL);
        for (size_t i = 0; i < in_host.len; i++) {
            char c = in_host.at[i];

            lower[i] = (char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
        }
        out->bucket = (struct span){lower, in_host.len};
        out->key = decoded;
        out->virtual_host = true;
    }
    return out->key.len > 0 ? s3_key_check(out->key, a, f) : ERR_OK;
}

/* ---- buckets ---- */

static bool
lower_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool
s3_bucket_ok(struct span name)
{
    if (name.len < S3_BUCKET_MIN || name.len > S3_BUCKET_MAX || is_ipv4(name))
        return false;
    if (!lower_or_digit(name.at[0]) || !lower_or_digit(name.at[name.len - 1]))
        return false;
    for (size_t i = 0; i < name.len; i++) {
        if (lower_or_digit(name.at[i]))
            continue;
        if (name.at[i] != '.' && name.at[i] != '-')
            return false;
        /* "--" is fine; a dot has letters or digits on both sides */
        if ((name.at[i] == '.' || name.at[i - 1] == '.') &&
            !lower_or_digit(name.at[i - 1]))
            return false;
    }
    return true;
}

enum err
s3_bucket_check(struct span name, struct fault *f)
{
    if (s3_bucket_ok(name))
        return ERR_OK;
    fault_set(f, S3_InvalidBucketName, NULL);
    fault_add(f, "BucketName", name);
    return ERR_BAD_REQUEST;
}

/* ---- x-amz-copy-source ---- */

enum err
s3_copy_source_parse(struct span value, struct arena *a, struct s3_copy_source *out,
                     struct fault *f)
{
    static const char id[] = "versionId=";
    const char *mark = span_find(value, '?');
    struct span path = value, decoded;
    enum err rc;

    *out = (struct s3_copy_source){.version = {"", 0}};
    if (mark != NULL) {
        path.len = (size_t)(mark - value.at);
        out->version = span_from(value, path.len + 1);
        if (!span_starts(out->version, SPAN(id)) || out->version.len == sizeof id - 1)
            return fault_argument(f, "x-amz-copy-source", value,
                                  "Unexpected query in the copy source");
        out->version = span_from(out->version, sizeof id - 1);
    }
    if (path.len > 0 && path.at[0] == '/')
        path = span_from(path, 1);
    rc = s3name_decode(path, a, &decoded, f);
    if (rc != ERR_OK)
        return rc;
    s3name_divide(decoded, &out->bucket, &out->key);
    if (out->bucket.len == 0 || out->key.len == 0)
        return fault_argument(f, "x-amz-copy-source", value,
                              "Copy Source must mention the source bucket and key: "
                              "sourcebucket/sourcekey");
    return s3_key_check(out->key, a, f);
}
