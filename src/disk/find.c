#include "disk/find.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/metrics.h"
#include "disk/list.h"

/* A coded value, from wherever it is. From the index it lies in `bytes`. */
struct found {
    struct span value;
    bool in_index;
    unsigned char bytes[VALUE_CODED_MAX];
};

static enum err
find_or_not(struct tail *t, struct index *x, const struct row_home *home,
            struct index_want *want, struct found *out, struct errbuf *eb)
{
    size_t len;
    enum err rc;

    out->in_index = false;
    switch (tail_find(t, home->table, home->bucket, home->key, &out->value)) {
    case TAIL_HAS:
        return ERR_OK;
    case TAIL_GONE:
        return ERR_NOT_FOUND;
    case TAIL_SILENT:
        break;
    }
    out->in_index = true;
    rc = index_find(x, home->table, home->bucket, home->key, want, out->bytes, &len, eb);
    out->value = (struct span){(char *)out->bytes, len};
    return rc;
}

static enum err
find(struct tail *t, struct index *x, const struct row_home *home, struct found *out,
     struct errbuf *eb)
{
    return find_or_not(t, x, home, NULL, out, eb);
}

static enum err
corrupt(struct index *x, const struct found *f, const struct row_home *home,
        struct errbuf *eb)
{
    if (f->in_index)
        index_set_bad(x);
    metric_add(M_CHECKSUM_FAILURES, 0, 1);
    return err_set(eb, ERR_CORRUPT, "the row of \"%.*s\" in the %s has a wrong sum",
                   (int)MIN(home->key.len, 100u), home->key.at,
                   f->in_index ? "index" : "tail");
}

/* Past what loops remember. */
static enum err
look_up(struct tail *t, struct index *x, const struct row_home *home,
        bool with_tombstones, struct index_want *want, struct row *out, struct errbuf *eb)
{
    struct found f;
    enum err rc = find_or_not(t, x, home, want, &f, eb);

    if (rc == ERR_OK && row_decode(home, f.value, out) != ERR_OK)
        return corrupt(x, &f, home, eb);
    if (rc == ERR_OK && (out->flags & ROW_TOMBSTONE) != 0 && !with_tombstones)
        return ERR_NOT_FOUND;
    return rc;
}

enum err
find_object(struct tail *t, struct index *x, uint64_t bucket, struct span key,
            bool with_tombstones, struct row *out, struct errbuf *eb)
{
    struct row_home home = {TABLE_OBJECTS, bucket, key};
    struct recent_look look;
    enum err rc;

    if (recent_find(tail_recent(t), bucket, key, &look, out))
        return ERR_OK;
    rc = look_up(t, x, &home, with_tombstones, NULL, out, eb);
    if (rc == ERR_OK && (out->flags & ROW_TOMBSTONE) == 0)
        recent_keep(tail_recent(t), bucket, key, &look, out);
    return rc;
}

enum err
find_object_now(struct tail *t, struct index *x, uint64_t bucket, struct span key,
                struct index_want *want, struct row *out, struct errbuf *eb)
{
    struct row_home home = {TABLE_OBJECTS, bucket, key};
    struct recent_look look;
    enum err rc;

    if (recent_small_find(tail_recent(t), bucket, key, &look, out))
        return ERR_OK;
    rc = look_up(t, x, &home, false, want, out, eb);
    if (rc == ERR_OK && !recent_small_keep(tail_recent(t), &look, out))
        recent_keep(tail_recent(t), bucket, key, &look, out);
    return rc;
}

enum err
find_version(struct tail *t, struct index *x, uint64_t bucket, struct span key,
             const struct version *born, struct row *out, struct errbuf *eb)
{
    unsigned char coded[KEY_UPLOAD_MAX];
    struct row_home home = {
        TABLE_VERSIONS, bucket, {(char *)coded, key_version(key, born, coded)}};
    struct found f;
    enum err rc = find(t, x, &home, &f, eb);

    if (rc == ERR_OK && row_decode(&home, f.value, out) != ERR_OK)
        return corrupt(x, &f, &home, eb);
    return rc;
}

enum err
find_null_version(struct tail *t, struct index *x, uint64_t bucket, struct span key,
                  struct row *out, struct errbuf *eb)
{
    struct version none = {0}, born;
    enum err rc = find_version(t, x, bucket, key, &none, out, eb);

    if (rc != ERR_OK)
        return rc;
    born = row_born(out);
    return find_version(t, x, bucket, key, &born, out, eb);
}

enum err
find_content(struct tail *t, struct index *x, uint64_t bucket, struct span key,
             const struct content_id *content, struct row *out, struct errbuf *eb)
{
    struct arena *a;
    struct row *rows;
    struct version after = {UINT64_MAX, UINT64_MAX};
    uint32_t count;
    bool more = true, found = false;
    enum err rc = find_object(t, x, bucket, key, true, out, eb);

    if (rc != ERR_OK || memcmp(&out->content, content, sizeof *content) == 0)
        return rc;
    if ((out->flags & (ROW_VERSIONED | ROW_SUSPENDED)) == 0)
        return ERR_NOT_FOUND;
    a = arena_new(KIB(16), MIB(1));
    while (rc == ERR_OK && more && !found) {
        arena_reset(a);
        rc = list_older(t, x, bucket, key, &after, 100, a, &rows, &count, &more, eb);
        for (uint32_t i = 0; rc == ERR_OK && i < count && !found; i++) {
            after = row_born(&rows[i]);
            found = memcmp(&rows[i].content, content, sizeof *content) == 0;
            *out = rows[i];
        }
        more = more && count > 0;
    }
    arena_free(&a);
    return rc == ERR_OK && !found ? ERR_NOT_FOUND : rc;
}

static enum err
no_upload(enum err rc, const struct upload_id *id, struct errbuf *eb)
{
    char hex[2 * sizeof id->id.bytes + 1];

    if (rc != ERR_NOT_FOUND)
        return rc;
    hex_encode(id->id.bytes, sizeof id->id.bytes, hex);
    return err_set(eb, ERR_NO_UPLOAD, "there is no upload \"%s\" of this key", hex);
}

enum err
find_upload(struct tail *t, struct index *x, uint64_t bucket, struct span key,
            const struct upload_id *id, struct upload_row *out, struct errbuf *eb)
{
    unsigned char coded[KEY_UPLOAD_MAX];
    struct row_home home = {
        TABLE_UPLOADS, bucket, {(char *)coded, key_upload(key, id, coded)}};
    struct found f;
    enum err rc = find(t, x, &home, &f, eb);

    if (rc == ERR_OK && upload_row_decode(&home, f.value, out) != ERR_OK)
        return corrupt(x, &f, &home, eb);
    return no_upload(rc, id, eb);
}

enum err
find_part(struct tail *t, struct index *x, const struct upload_id *id, uint32_t number,
          struct part_row *out, struct errbuf *eb)
{
    unsigned char coded[KEY_PART_BYTES];
    struct row_home home = {TABLE_PARTS, 0, {(char *)coded, sizeof coded}};
    struct found f;
    enum err rc;

    key_part(id, number, coded);
    rc = find(t, x, &home, &f, eb);
    if (rc == ERR_OK && part_row_decode(&home, f.value, out) != ERR_OK)
        return corrupt(x, &f, &home, eb);
    return no_upload(rc, id, eb);
}

enum err
find_done(struct tail *t, struct index *x, const struct upload_id *id, char *key,
          struct done_row *out, struct errbuf *eb)
{
    struct row_home home = {
        TABLE_DONE, 0, {(const char *)id->id.bytes, sizeof id->id.bytes}};
    struct found f;
    enum err rc = find(t, x, &home, &f, eb);

    if (rc != ERR_OK)
        return no_upload(rc, id, eb);
    if (done_row_decode(&home, f.value, out) != ERR_OK)
        return corrupt(x, &f, &home, eb);
    memcpy(key, out->key.at, out->key.len);
    out->key.at = key;
    return ERR_OK;
}

enum err
find_prepared(struct tail *t, struct index *x, const struct content_id *content,
              char *key, struct prepared_row *out, struct errbuf *eb)
{
    struct row_home home = {
        TABLE_PREPARED, 0, {(const char *)content->bytes, sizeof content->bytes}};
    struct found f;
    enum err rc = find(t, x, &home, &f, eb);

    if (rc != ERR_OK)
        return rc;
    if (prepared_row_decode(&home, f.value, out) != ERR_OK)
        return corrupt(x, &f, &home, eb);
    memcpy(key, out->key.at, out->key.len);
    out->key.at = key;
    return ERR_OK;
}
