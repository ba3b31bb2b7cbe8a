/* list: listings of objects, in pages of up to 10,000, as msgpack or as JSON.
 *
 * A page is made of listings of up to 1,000 names. Properties that an index entry does not have (checksum, version, custom)
 * cost a look-up of each object. The continuation token is the last name of the page. */
#include <string.h>
#include <time.h>

#include "api/ais/checksum.h"
#include "api/ais/ops.h"
#include "base/account.h"
#include "base/mem.h"
#include "base/num.h"
#include "rt/fiber.h"
#include "wire/msgpack.h"

#define PAGE_MAX      10000u
#define PAGE_BYTES    (20u << 20)
#define SCRATCH_BYTES (4u << 20) /* of 1,000 names */
#define NAMES_A_TIME  1000u

/* Flags of a request. */
enum {
    LIST_CACHED = 1,
    LIST_NAME_ONLY = 16,
    LIST_NAME_SIZE = 32,
    LIST_NO_RECURSION = 2048,
};
/* Flags of an entry. */
enum { ENTRY_PRESENT = 64, ENTRY_DIRECTORY = 256, ENTRY_IN_CHUNKS = 8192 };

/* Properties. */
#define LIST_PROP_TABLE(X)                                                               \
    X(NAME, "name")                                                                      \
    X(SIZE, "size")                                                                      \
    X(VERSION, "version")                                                                \
    X(CHECKSUM, "checksum")                                                              \
    X(ATIME, "atime")                                                                    \
    X(CACHED, "cached")                                                                  \
    X(STATUS, "status")                                                                  \
    X(COPIES, "copies")                                                                  \
    X(EC, "ec")                                                                          \
    X(CUSTOM, "custom")                                                                  \
    X(LOCATION, "location")                                                              \
    X(CHUNKED, "chunked")
enum list_prop {
#define X(id, name) PROP_##id,
    LIST_PROP_TABLE(X)
#undef X
        PROPS_
};
#define BIT(prop) (1u << PROP_##prop)

struct page_request {
    const char *uuid, *prefix, *start_after, *token, *time_format;
    unsigned props;
    uint64_t size, flags;
};
/* One entry, with what was asked for. */
struct listed {
    struct span name;
    uint64_t size;
    unsigned flags;
    char checksum[AIS_CHECKSUM_TEXT];
    char version[24];
    char atime[48];
    const char *custom; /* NULL: none */
};
struct page {
    struct request *q;
    const struct page_request *r;
    bool msgpack;
    struct buf out; /* the entries */
    struct json json;
    uint32_t count;
    struct arena *scratch;
    char last[OBJECT_KEY_MAX + 1];
    size_t last_len;
    bool more;
    char location[160];
};

/* ---- the request ---- */

static enum err
take_props(struct request *q, const char *text, struct page_request *r)
{
    static const char *const names[PROPS_] = {
#define X(id, name) [PROP_##id] = (name),
        LIST_PROP_TABLE(X)
#undef X
    };
    struct span rest = span_of(text);

    while (rest.len > 0) {
        const char *comma = span_find(rest, ',');
        size_t len = comma != NULL ? (size_t)(comma - rest.at) : rest.len;
        struct span name = span_trim((struct span){rest.at, len});
        unsigned i = 0;

        rest = span_from(rest, len + 1);
        while (i < PROPS_ && !span_is(name, names[i]))
            i++;
        if (i == PROPS_ && name.len > 0)
            return ais_fault(q, 400, NULL, "invalid property \"%.*s\" of a listing",
                             (int)MIN(name.len, 64u), name.at);
        if (name.len > 0)
            r->props |= 1u << i;
    }
    if (r->props == 0)
        r->props = (r->flags & LIST_CACHED) != 0
                       ? BIT(NAME) | BIT(SIZE) | BIT(CHECKSUM) | BIT(ATIME)
                       : BIT(NAME) | BIT(SIZE) | BIT(CACHED);
    if ((r->flags & LIST_NAME_ONLY) != 0)
        r->props = BIT(NAME);
    else if ((r->flags & LIST_NAME_SIZE) != 0)
        r->props = BIT(NAME) | BIT(SIZE);
    return ERR_OK;
}

static enum err
take_listing(struct request *q, struct page_request *r)
{
    const json_t *v = q->ais->value;
    const char *props = "";
    enum err rc;

    *r = (struct page_request){.uuid = "", .prefix = ""};
    if (v != NULL && !json_is_object(v))
        return ais_fault(q, 400, NULL, "the value of \"list\" must be an object");
    rc = ais_text(q, v, "uuid", &r->uuid);
    if (rc == ERR_OK)
        rc = ais_text(q, v, "prefix", &r->prefix);
    if (rc == ERR_OK)
        rc = ais_text(q, v, "start_after", &r->start_after);
    if (rc == ERR_OK)
        rc = ais_text(q, v, "continuation_token", &r->token);
    if (rc == ERR_OK)
        rc = ais_text(q, v, "props", &props);
    if (rc == ERR_OK)
        rc = ais_number(q, v, "pagesize", &r->size);
    if (rc == ERR_OK)
        rc = ais_number(q, v, "flags", &r->flags);
    if (rc == ERR_OK)
        rc = take_props(q, props, r);
    if (rc == ERR_OK &&
        (strlen(r->prefix) > OBJECT_KEY_MAX || strlen(r->start_after) > OBJECT_KEY_MAX ||
         strlen(r->token) > OBJECT_KEY_MAX || strlen(r->uuid) > 64))
        rc = ais_fault(q, 400, NULL, "prefix, start_after or token of over %u bytes",
                       OBJECT_KEY_MAX);
    r->size = r->size == 0 || r->size > PAGE_MAX ? PAGE_MAX : r->size;
    return rc;
}

/* ---- entries ---- */

/* RFC 822, as AIStore's default. */
static void
put_atime_text(int64_t ms, char out[48])
{
    time_t s = (time_t)(ms / 1000);
    struct tm at;

    out[0] = '\0';
    if (gmtime_r(&s, &at) != NULL)
        (void)strftime(out, 48, "%d %b %y %H:%M UTC", &at);
}

/* "[k1:v1 k2:v2]" */
static const char *
custom_text(struct arena *a, const struct object_meta *m)
{
    struct buf text;
    const char *kept;

    if (m->user_count == 0)
        return NULL;
    buf_init(&text, KIB(8));
    for (uint32_t i = 0; i < m->user_count; i++)
        buf_printf(&text, "%s%.*s:%.*s", i == 0 ? "[" : " ", SPAN_ARG(m->user[i].name),
                   SPAN_ARG(m->user[i].value));
    buf_puts(&text, "]");
    kept = arena_strdup(a, buf_span(&text));
    buf_fini(&text);
    return kept;
}

/* What the index entry does not say. An object that went meanwhile has no more than its name. */
static void
fill_from_object(struct page *p, struct listed *e)
{
    struct request *q = p->q;
    struct object_info *info = arena_try(p->scratch, sizeof *info);
    struct errbuf eb = {{0}};

    if (info == NULL || object_head(q->api->options.object, q->bucket, e->name,
                                    p->scratch, info, &eb) != ERR_OK)
        return;
    (void)ais_checksum_of(q->bucket, &info->meta, e->checksum);
    if (!q->bucket->cached)
        snprintf(e->version, sizeof e->version, "%u", info->overwrites + 1);
    if ((p->r->props & BIT(CUSTOM)) != 0)
        e->custom = custom_text(p->scratch, &info->meta);
    if (info->meta.parts > 0)
        e->flags |= ENTRY_IN_CHUNKS;
}

static void
put_msgpack_entry(struct page *p, const struct listed *e)
{
    unsigned props = p->r->props;
    bool dir = (e->flags & ENTRY_DIRECTORY) != 0;
    bool size = (props & ~BIT(NAME)) != 0 && e->size > 0;
    bool checksum = (props & BIT(CHECKSUM)) != 0 && e->checksum[0] != '\0';
    bool atime = (props & BIT(ATIME)) != 0 && e->atime[0] != '\0';
    bool version = (props & BIT(VERSION)) != 0 && e->version[0] != '\0';
    bool custom = e->custom != NULL;
    bool copies = (props & BIT(COPIES)) != 0 && !dir;
    bool location = (props & BIT(LOCATION)) != 0 && !dir;
    struct buf *out = &p->out;

    msgpack_map(out, 2u + size + checksum + atime + version + custom + copies + location);
    msgpack_text(out, SPAN("n"));
    msgpack_text(out, e->name);
    if (checksum) {
        msgpack_text(out, SPAN("cs"));
        msgpack_text(out, span_of(e->checksum));
    }
    if (atime) {
        msgpack_text(out, SPAN("a"));
        msgpack_text(out, span_of(e->atime));
    }
    if (version) {
        msgpack_text(out, SPAN("v"));
        msgpack_text(out, span_of(e->version));
    }
    if (location) {
        msgpack_text(out, SPAN("t"));
        msgpack_text(out, span_of(p->location));
    }
    if (custom) {
        msgpack_text(out, SPAN("m"));
        msgpack_text(out, span_of(e->custom));
    }
    if (size) {
        msgpack_text(out, SPAN("s"));
        msgpack_u64(out, e->size);
    }
    if (copies) {
        msgpack_text(out, SPAN("c"));
        msgpack_u64(out, MAX(p->q->bucket->copies, 1u));
    }
    msgpack_text(out, SPAN("f"));
    msgpack_u64(out, e->flags);
}

static void
put_json_entry(struct page *p, const struct listed *e)
{
    unsigned props = p->r->props;
    struct json *j = &p->json;

    json_open_object(j, NULL);
    json_span(j, "name", e->name);
    if ((props & BIT(CHECKSUM)) != 0 && e->checksum[0] != '\0')
        json_text(j, "checksum", e->checksum);
    if ((props & BIT(ATIME)) != 0 && e->atime[0] != '\0')
        json_text(j, "atime", e->atime);
    if ((props & BIT(VERSION)) != 0 && e->version[0] != '\0')
        json_text(j, "version", e->version);
    if ((props & BIT(LOCATION)) != 0)
        json_text(j, "location", p->location);
    if (e->custom != NULL)
        json_text(j, "custom-md", e->custom);
    if ((props & ~BIT(NAME)) != 0)
        ais_put_number(j, "size", e->size);
    if ((props & BIT(COPIES)) != 0)
        json_u64(j, "copies", MAX(p->q->bucket->copies, 1u));
    json_u64(j, "flags", e->flags);
    json_end(j);
}

static void
list_add_entry(struct page *p, const struct object_entry *found)
{
    const unsigned looked_up = BIT(CHECKSUM) | BIT(VERSION) | BIT(CUSTOM) | BIT(CHUNKED);
    struct listed e = {.name = found->name, .size = found->size};

    e.flags = found->is_prefix ? ENTRY_DIRECTORY : ENTRY_PRESENT;
    if (!found->is_prefix && (p->r->props & BIT(ATIME)) != 0)
        put_atime_text(found->mtime_ms, e.atime);
    if (!found->is_prefix && (p->r->props & looked_up) != 0)
        fill_from_object(p, &e);
    if (p->msgpack)
        put_msgpack_entry(p, &e);
    else
        put_json_entry(p, &e);
    p->count++;
    p->last_len = MIN(found->name.len, sizeof p->last - 1);
    memcpy(p->last, found->name.at, p->last_len);
}

/* ---- the page ---- */

static enum err
fill_page(struct page *p)
{
    struct request *q = p->q;
    struct span token = span_of(p->r->token), start = span_of(p->r->start_after);
    struct object_list_options o = {
        .prefix = span_of(p->r->prefix),
        .delimiter = (p->r->flags & LIST_NO_RECURSION) != 0 ? SPAN("/") : SPAN(""),
        .after = token.len > 0 ? token : start};
    bool more = true;

    while (more && p->count < p->r->size) {
        struct object_page found = {0};
        struct errbuf eb = {{0}};
        enum err rc;

        arena_reset(p->scratch);
        o.max = (uint32_t)MIN(p->r->size - p->count, NAMES_A_TIME);
        rc = object_list(q->api->options.object, q->bucket, &o, p->scratch, &found, &eb);
        if (rc != ERR_OK)
            return ais_fault_from(q, rc, &eb);
        for (uint32_t i = 0; i < found.count; i++)
            list_add_entry(p, &found.entries[i]);
        more = found.truncated;
        o.after = (struct span){p->last, p->last_len};
        if (p->out.full)
            return ais_fault(q, 400, NULL,
                             "the page is over %u bytes; ask for a smaller one",
                             PAGE_BYTES);
        rt_yield();
    }
    p->more = more;
    return ERR_OK;
}

/* Of one listing: the same on all pages. */
static const char *
listing_id(struct page *p)
{
    return p->r->uuid[0] != '\0' ? p->r->uuid
                                 : arena_printf(p->q->arena, "lst-%.12s", p->q->http->id);
}

static enum err
answer_msgpack(struct page *p)
{
    struct request *q = p->q;
    struct buf whole;
    struct iovec iov[3];
    enum err rc;

    buf_init(&whole, KIB(8));
    msgpack_map(&whole, 4);
    msgpack_text(&whole, SPAN("UUID"));
    msgpack_text(&whole, span_of(listing_id(p)));
    msgpack_text(&whole, SPAN("ContinuationToken"));
    msgpack_text(&whole, (struct span){p->last, p->more ? p->last_len : 0});
    msgpack_text(&whole, SPAN("Flags"));
    msgpack_u64(&whole, 0);
    msgpack_text(&whole, SPAN("Entries"));
    msgpack_array(&whole, p->count);
    request_put_ids(q);
    http_header(q->http, "content-type", SPAN("application/msgpack"));
    rc = http_reply_begin(q->http, 200, (int64_t)(whole.len + p->out.len));
    iov[0] = (struct iovec){whole.at, whole.len};
    iov[1] = (struct iovec){p->out.at, p->out.len};
    if (rc == ERR_OK)
        rc = http_reply_writev(q->http, iov, p->out.len > 0 ? 2 : 1);
    if (rc == ERR_OK)
        http_reply_end(q->http);
    buf_fini(&whole);
    return ERR_OK; /* the client is gone, or has it */
}

static enum err
answer_json(struct page *p)
{
    struct request *q = p->q;
    struct json *j = &p->json;

    json_end(j);
    json_text(j, "uuid", listing_id(p));
    json_span(j, "continuation_token", (struct span){p->last, p->more ? p->last_len : 0});
    json_u64(j, "flags", 0);
    json_end(j);
    request_put_ids(q);
    http_header(q->http, "content-type", SPAN("application/json; charset=utf-8"));
    http_reply(q->http, 200, buf_span(&p->out));
    return ERR_OK;
}

enum err
ais_list_objects(struct request *q)
{
    struct page *p = arena_alloc(q->arena, sizeof *p);
    struct page_request r;
    struct ais_ids ids;
    int64_t reserved;
    enum err rc = take_listing(q, &r);

    if (rc != ERR_OK)
        return rc;
    ais_ids(q->api, &ids);
    p->q = q;
    p->r = &r;
    p->msgpack = http_lists(q->http->head, HTTP_ACCEPT, "application/msgpack");
    snprintf(p->location, sizeof p->location, "t[%s]:mp", ids.target);
    buf_init(&p->out, PAGE_BYTES);
    if (!p->msgpack) {
        json_begin(&p->json, &p->out);
        json_open_object(&p->json, NULL);
        json_open_array(&p->json, "entries");
    }
    reserved = (int64_t)MIN(r.size * 256, (uint64_t)PAGE_BYTES);
    if (!account_reserve(ACCOUNT_DOCUMENTS, (uint64_t)reserved)) {
        buf_fini(&p->out);
        return ais_fault(q, 503, NULL, "no memory for a page of %llu names now",
                         (unsigned long long)r.size);
    }
    p->scratch = arena_new(KIB(64), SCRATCH_BYTES);
    rc = fill_page(p);
    arena_free(&p->scratch);
    if (rc == ERR_OK)
        rc = p->msgpack ? answer_msgpack(p) : answer_json(p);
    account_add(ACCOUNT_DOCUMENTS, -reserved);
    buf_fini(&p->out);
    return rc;
}
