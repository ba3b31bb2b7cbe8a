/* s3_model_lists: what each listing has to say, page by page, and how its answer is read. */
#pragma once
#include "unit/api/s3_model_ask.h"

/* The text of the next element of that name behind *at, which is moved behind it. False: there is none before `end`. */
static inline bool
m_next(const char **at, const char *end, const char *name, char *out, size_t room)
{
    char open[64];
    const char *found, *close;

    snprintf(open, sizeof open, "<%s>", name);
    found = strstr(*at, open);
    if (found == NULL || found >= end)
        return false;
    found += strlen(open);
    close = strchr(found, '<');
    snprintf(out, room, "%.*s", (int)(close - found), found);
    *at = close;
    return true;
}

/* What a list should say, and what it said: one line for each thing. */
struct m_lines {
    struct buf text;
    unsigned count;
};

static inline const char *
m_xml_of(const char *key, size_t len)
{
    static char out[256];
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        const char *as = key[i] == '&'   ? "&amp;"
                         : key[i] == '<' ? "&lt;"
                         : key[i] == '>' ? "&gt;"
                                         : NULL;

        if (as != NULL)
            n += (size_t)snprintf(out + n, sizeof out - n, "%s", as);
        else
            out[n++] = key[i];
    }
    out[n] = '\0';
    return out;
}

/* The group of a key, or 0. */
static inline size_t
m_group(const char *key, const char *prefix, const char *delimiter)
{
    const char *at =
        delimiter[0] != '\0' ? strstr(key + strlen(prefix), delimiter) : NULL;

    return at != NULL ? (size_t)(at - key) + strlen(delimiter) : 0;
}

static inline void
m_expect_list(struct m_bucket *b, const char *prefix, const char *delimiter,
              bool versions, struct buf *keys, struct buf *groups)
{
    char last[64] = "";

    for (unsigned k = 0; k < M_KEYS; k++) {
        size_t group;

        if (strncmp(m_keys[k].key, prefix, strlen(prefix)) != 0 ||
            (versions ? b->count[k] == 0 : m_current(b, k) == NULL))
            continue;
        group = m_group(m_keys[k].key, prefix, delimiter);
        if (group > 0) {
            char name[64];

            snprintf(name, sizeof name, "%.*s", (int)group, m_keys[k].key);
            if (strcmp(name, last) != 0)
                buf_printf(groups, "%s\n", m_xml_of(name, strlen(name)));
            strcpy(last, name);
            continue;
        }
        for (unsigned i = 0; i < (versions ? b->count[k] : 1); i++) {
            const struct m_version *v = &b->of[k][i];

            if (versions)
                buf_printf(keys, "%s %s %d %s %u\n", m_keys[k].xml, v->id, i == 0,
                           v->marker ? "-" : v->etag, v->marker ? 0 : v->len);
            else
                buf_printf(keys, "%s %s %u\n", m_keys[k].xml, v->etag, v->len);
        }
    }
}

/* One element of a list as a line. */
static inline void
m_read_entry(const char *at, const char *end, bool versions, bool marker,
             struct buf *keys)
{
    char key[128], id[64] = "", latest[8] = "", etag[80] = "-", size[16] = "0";
    const char *from = at;

    m_next(&from, end, "Key", key, sizeof key);
    if (versions) {
        m_next(&from, end, "VersionId", id, sizeof id);
        m_next(&from, end, "IsLatest", latest, sizeof latest);
    }
    if (!marker) {
        m_next(&from, end, "ETag", etag, sizeof etag);
        m_next(&from, end, "Size", size, sizeof size);
    }
    if (!marker && strncmp(etag, "&quot;", 6) == 0) {
        memmove(etag, etag + 6, strlen(etag) - 5);
        etag[strlen(etag) - 6] = '\0';
    } else if (!marker && etag[0] == '"') {
        memmove(etag, etag + 1, strlen(etag));
        etag[strlen(etag) - 1] = '\0';
    }
    if (versions)
        buf_printf(keys, "%s %s %d %s %s\n", key, id, strcmp(latest, "true") == 0, etag,
                   size);
    else
        buf_printf(keys, "%s %s %s\n", key, etag, size);
}

static inline unsigned
m_read_page(const char *at, bool versions, struct buf *keys, struct buf *groups)
{
    static const char *const names[] = {"<Contents>", "<Version>", "<DeleteMarker>",
                                        "<CommonPrefixes>"};
    unsigned count = 0;

    for (;;) {
        const char *next = NULL, *end;
        unsigned what = 0;
        char prefix[128];

        for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
            const char *found = strstr(at, names[i]);

            if (found != NULL && (next == NULL || found < next)) {
                next = found;
                what = i;
            }
        }
        if (next == NULL)
            return count;
        at = next + strlen(names[what]);
        end = at + strlen(at);
        for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
            const char *found = strstr(at, names[i]);

            if (found != NULL && found < end)
                end = found;
        }
        if (what == 3) {
            m_next(&at, end, "Prefix", prefix, sizeof prefix);
            buf_printf(groups, "%s\n", prefix);
        } else {
            m_read_entry(at, end, versions, what == 2, keys);
        }
        count++;
    }
}

static inline void
m_encode(const char *xml_text, char *out, size_t room)
{
    size_t n = 0;

    for (const unsigned char *c = (const unsigned char *)xml_text;
         *c != '\0' && n + 4 < room;) {
        unsigned char byte = *c;

        if (strncmp((const char *)c, "&amp;", 5) == 0) {
            byte = '&';
            c += 5;
        } else if (strncmp((const char *)c, "&lt;", 4) == 0) {
            byte = '<';
            c += 4;
        } else if (strncmp((const char *)c, "&gt;", 4) == 0) {
            byte = '>';
            c += 4;
        } else {
            c++;
        }
        n += (size_t)snprintf(out + n, room - n, "%%%02X", byte);
    }
    out[n] = '\0';
}

/* Where the next page begins; false: this was the last. */
static inline bool
m_next_page(const struct m_answer *a, bool versions, char *query, size_t room)
{
    char token[256], encoded[512], id[64] = "";
    const char *at = a->body.at, *end = a->body.at + a->body.len;

    if (strstr(at, "<IsTruncated>true</IsTruncated>") == NULL)
        return false;
    if (!m_next(&at, end, versions ? "NextKeyMarker" : "NextContinuationToken", token,
                sizeof token))
        return false;
    m_encode(token, encoded, sizeof encoded);
    at = a->body.at;
    if (!versions)
        snprintf(query, room, "&continuation-token=%s", encoded);
    else if (m_next(&at, end, "NextVersionIdMarker", id, sizeof id))
        snprintf(query, room, "&key-marker=%s&version-id-marker=%s", encoded, id);
    else
        snprintf(query, room, "&key-marker=%s", encoded);
    return true;
}

static inline void
m_list_of(struct model *m, struct m_bucket *b, const char *prefix, const char *delimiter,
          bool versions, unsigned size)
{
    struct buf want_keys, want_groups, keys, groups;
    char target[1024], more[700] = "";
    struct m_answer a = {.status = 0};
    bool again;

    buf_init(&want_keys, 1u << 20);
    buf_init(&want_groups, 1u << 16);
    buf_init(&keys, 1u << 20);
    buf_init(&groups, 1u << 16);
    m_expect_list(b, prefix, delimiter, versions, &want_keys, &want_groups);
    do {
        char p[64], d[64];
        unsigned count;

        m_encode(prefix, p, sizeof p);
        m_encode(delimiter, d, sizeof d);
        snprintf(target, sizeof target, "/%s?%s&prefix=%s&delimiter=%s&max-keys=%u%s",
                 b->name, versions ? "versions" : "list-type=2", p, d, size, more);
        m_ask(m, "GET", target, NULL, (struct span){NULL, 0}, &a);
        m_want_status(m, &a, 200, NULL);
        count = m_read_page(a.body.at, versions, &keys, &groups);
        m_want(m, count <= size, "a page no longer than asked", &a);
        again = m_next_page(&a, versions, more, sizeof more);
        m_want(m, !again || count == size, "only full pages are truncated", &a);
        if (again)
            buf_fini(&a.body);
    } while (again);
    buf_putc(&want_keys, '\0');
    buf_putc(&keys, '\0');
    buf_putc(&want_groups, '\0');
    buf_putc(&groups, '\0');
    if (strcmp(keys.at, want_keys.at) != 0 || strcmp(groups.at, want_groups.at) != 0) {
        fprintf(stderr, "%s\nwanted:\n%s--\n%s\ngot:\n%s--\n%s\n", target, want_keys.at,
                want_groups.at, keys.at, groups.at);
        m_fail(m, "a list", &a);
    }
    buf_fini(&a.body);
    buf_fini(&want_keys);
    buf_fini(&want_groups);
    buf_fini(&keys);
    buf_fini(&groups);
}

static inline void
m_list(struct model *m)
{
    static const char *const prefixes[] = {"", "a", "a/", "b", "b/", "none"};
    static const char *const delimiters[] = {"", "/", "//"};

    m_list_of(m, m_any_bucket(m), prefixes[m_rnd(m, ARRAY_LEN(prefixes))],
              delimiters[m_rnd(m, ARRAY_LEN(delimiters))], m_rnd(m, 2) == 0,
              m_rnd(m, 2) == 0 ? 1000 : 1 + m_rnd(m, 5));
}

static inline void
m_list_uploads(struct model *m)
{
    struct m_bucket *b = m_any_bucket(m);
    struct m_answer a;
    char target[64];
    const char *at;
    unsigned count = 0;

    snprintf(target, sizeof target, "/%s?uploads", b->name);
    m_ask(m, "GET", target, NULL, (struct span){NULL, 0}, &a);
    m_want_status(m, &a, 200, NULL);
    at = a.body.at;
    /* By key, then begin; both are in the model's order within a key. */
    for (unsigned k = 0; k < M_KEYS; k++)
        for (unsigned i = 0; i < b->upload_count; i++) {
            char key[128], id[64];

            if (b->uploads[i].key != k)
                continue;
            m_want(m,
                   m_next(&at, a.body.at + a.body.len, "Key", key, sizeof key) &&
                       m_next(&at, a.body.at + a.body.len, "UploadId", id, sizeof id) &&
                       strcmp(key, m_keys[k].xml) == 0 &&
                       strcmp(id, b->uploads[i].id) == 0,
                   "an upload", &a);
            count++;
        }
    m_want(m, strstr(at, "<Upload>") == NULL && count == b->upload_count, "no more", &a);
    buf_fini(&a.body);
}
