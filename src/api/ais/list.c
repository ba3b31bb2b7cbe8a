/* list: listings of objects, in pages of up to 10,000, as msgpack or as JSON.
 *
 * A page is made of listings of up to 1,000 names. Properties that an index entry does not have (checksum, version, custom)
 * cost a look-up of each object. The continuation token is the last name of the page, with archives also the place in one. */
#include <string.h>
#include <time.h>

#include "api/ais/list.h"
#include "api/ais/ops.h"
#include "api/merge.h"
#include "base/account.h"
#include "base/mem.h"
#include "base/num.h"
#include "rt/fiber.h"
#include "wire/msgpack.h"

#define PAGE_MAX      10000u
#define PAGE_BYTES    (20u << 20)
#define SCRATCH_BYTES WORK_BYTES_MAX
#define NAMES_A_TIME  1000u

/* ---- the request ---- */

static enum err
take_props(struct request *q, const char *text, struct list_request *r)
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
        r->props =
            (r->flags & LIST_CACHED) != 0
                ? PROP_BIT(NAME) | PROP_BIT(SIZE) | PROP_BIT(CHECKSUM) | PROP_BIT(ATIME)
                : PROP_BIT(NAME) | PROP_BIT(SIZE) | PROP_BIT(CACHED);
    if ((r->flags & LIST_NAME_ONLY) != 0)
        r->props = PROP_BIT(NAME);
    else if ((r->flags & LIST_NAME_SIZE) != 0)
        r->props = PROP_BIT(NAME) | PROP_BIT(SIZE);
    return ERR_OK;
}

static enum err
take_listing(struct request *q, struct list_request *r)
{
    const json_t *v = q->ais->value;
    const char *props = "";
    enum err rc;

    *r = (struct list_request){.uuid = "", .prefix = ""};
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
         strlen(r->token) > OBJECT_KEY_MAX + 24 || strlen(r->uuid) > 64))
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
fill_from_object(struct list_page *p, struct listed *e)
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
    if ((p->r->props & PROP_BIT(CUSTOM)) != 0)
        e->custom = custom_text(p->scratch, &info->meta);
    if (info->meta.parts > 0)
        e->flags |= ENTRY_IN_CHUNKS;
}

/* False: it is not listed, or is gone. */
static bool
fill_present(struct list_page *p, struct listed *e)
{
    struct request *q = p->q;
    struct object_present here;
    struct errbuf eb = {{0}};
    bool present = !q->bucket->cached || object_present(q->api->options.object, q->bucket,
                                                        e->name, &here, &eb) == ERR_OK;

    e->flags |= present ? ENTRY_PRESENT : 0;
    return !((p->r->flags & LIST_CACHED) != 0 && !present) &&
           !((p->r->flags & LIST_NOT_CACHED) != 0 && present);
}

static enum err
list_add_object(struct list_page *p, const struct object_entry *found)
{
    const unsigned looked_up =
        PROP_BIT(CHECKSUM) | PROP_BIT(VERSION) | PROP_BIT(CUSTOM) | PROP_BIT(CHUNKED);
    struct listed e = {.name = found->name, .size = found->size};

    if (!fill_present(p, &e))
        return ERR_OK;
    if ((p->r->props & PROP_BIT(ATIME)) != 0)
        put_atime_text(found->mtime_ms, e.atime);
    if ((p->r->props & looked_up) != 0)
        fill_from_object(p, &e);
    if ((p->r->flags & LIST_ARCHIVES) != 0)
        return list_archive_put(p, &e);
    list_entry_put(p, &e);
    return ERR_OK;
}

static enum err
list_add_entry(struct list_page *p, const struct object_entry *found)
{
    p->last_len = MIN(found->name.len, sizeof p->last - 1);
    memcpy(p->last, found->name.at, p->last_len);
    if (!found->is_prefix)
        return list_add_object(p, found);
    list_entry_put(p, &(struct listed){.name = found->name, .flags = ENTRY_DIRECTORY});
    return ERR_OK;
}

/* ---- the page ---- */

/* Where the page begins, by the token. */
static enum err
page_begin(struct list_page *p, struct span *after)
{
    struct span token = span_of(p->r->token);
    uint64_t resume = 0;

    *after = token.len > 0 ? token : span_of(p->r->start_after);
    if (token.len == 0 || (p->r->flags & LIST_ARCHIVES) == 0)
        return ERR_OK;
    if (list_archive_token(token, &resume, after) != ERR_OK)
        return ais_fault(p->q, 400, NULL,
                         "continuation token \"%.*s\" is none of this server",
                         (int)MIN(token.len, 64u), token.at);
    p->last_len = after->len;
    memcpy(p->last, after->at, after->len);
    return resume > 0 ? list_archive_continue(p, *after, resume - 1) : ERR_OK;
}

static enum err
fill_page(struct list_page *p)
{
    struct request *q = p->q;
    struct object_list_options o = {
        .prefix = span_of(p->r->prefix),
        .delimiter = (p->r->flags & LIST_NO_RECURSION) != 0 ? SPAN("/") : SPAN("")};
    bool more = true;
    enum err begun = page_begin(p, &o.after);

    if (begun != ERR_OK)
        return begun;
    while (more && p->count < p->r->size) {
        struct object_page found = {0};
        struct errbuf eb = {{0}};
        enum err rc;

        arena_reset(p->scratch);
        o.max = (uint32_t)MIN(p->r->size - p->count, NAMES_A_TIME);
        rc = merge_list(q, q->bucket, &o, p->scratch, &found, &eb);
        if (rc != ERR_OK)
            return ais_fault_from(q, rc, &eb);
        more = found.truncated;
        for (uint32_t i = 0; i < found.count; i++) {
            if (p->count == p->r->size) { /* members were listed, too */
                more = true;
                break;
            }
            rc = list_add_entry(p, &found.entries[i]);
            if (rc != ERR_OK)
                return rc;
        }
        o.after = (struct span){p->last, p->last_len};
        if (p->out.full)
            return ais_fault(q, 400, NULL,
                             "the page is over %u bytes; ask for a smaller one",
                             PAGE_BYTES);
        rt_yield();
    }
    p->more = more || p->resume > 0;
    return ERR_OK;
}

/* Of the page that follows; empty: there is none. */
static struct span
page_token(struct list_page *p)
{
    if (!p->more)
        return SPAN("");
    if ((p->r->flags & LIST_ARCHIVES) == 0)
        return (struct span){p->last, p->last_len};
    return span_of(arena_printf(p->q->arena, "%llu:%.*s", (unsigned long long)p->resume,
                                (int)p->last_len, p->last));
}

/* Of one listing: the same on all pages. */
static const char *
listing_id(struct list_page *p)
{
    return p->r->uuid[0] != '\0' ? p->r->uuid
                                 : arena_printf(p->q->arena, "lst-%.12s", p->q->http->id);
}

static enum err
answer_msgpack(struct list_page *p)
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
    msgpack_text(&whole, page_token(p));
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
answer_json(struct list_page *p)
{
    struct request *q = p->q;
    struct json *j = &p->json;

    json_end(j);
    json_text(j, "uuid", listing_id(p));
    json_span(j, "continuation_token", page_token(p));
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
    struct list_page *p = arena_alloc(q->arena, sizeof *p);
    struct list_request r;
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
