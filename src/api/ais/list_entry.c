/* list_entry: one entry of a listing, as msgpack or as JSON. */
#include "api/ais/list.h"

#include <assert.h>

#include "base/mem.h"
#include "wire/msgpack.h"

static void
put_msgpack_entry(struct list_page *p, const struct listed *e)
{
    unsigned props = p->r->props;
    bool dir = (e->flags & (ENTRY_DIRECTORY | ENTRY_MEMBER)) != 0;
    bool size = (props & ~PROP_BIT(NAME)) != 0 && e->size > 0;
    bool checksum = (props & PROP_BIT(CHECKSUM)) != 0 && e->checksum[0] != '\0';
    bool atime = (props & PROP_BIT(ATIME)) != 0 && e->atime[0] != '\0';
    bool version = (props & PROP_BIT(VERSION)) != 0 && e->version[0] != '\0';
    bool custom = e->custom != NULL;
    bool copies = (props & PROP_BIT(COPIES)) != 0 && !dir;
    bool location = (props & PROP_BIT(LOCATION)) != 0 && !dir;
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
put_json_entry(struct list_page *p, const struct listed *e)
{
    unsigned props = p->r->props;
    bool dir = (e->flags & (ENTRY_DIRECTORY | ENTRY_MEMBER)) != 0;
    struct json *j = &p->json;

    json_open_object(j, NULL);
    json_span(j, "name", e->name);
    if ((props & PROP_BIT(CHECKSUM)) != 0 && e->checksum[0] != '\0')
        json_text(j, "checksum", e->checksum);
    if ((props & PROP_BIT(ATIME)) != 0 && e->atime[0] != '\0')
        json_text(j, "atime", e->atime);
    if ((props & PROP_BIT(VERSION)) != 0 && e->version[0] != '\0')
        json_text(j, "version", e->version);
    if ((props & PROP_BIT(LOCATION)) != 0 && !dir)
        json_text(j, "location", p->location);
    if (e->custom != NULL)
        json_text(j, "custom-md", e->custom);
    if ((props & ~PROP_BIT(NAME)) != 0)
        ais_put_number(j, "size", e->size);
    if ((props & PROP_BIT(COPIES)) != 0 && !dir)
        json_u64(j, "copies", MAX(p->q->bucket->copies, 1u));
    json_u64(j, "flags", e->flags);
    json_end(j);
}

void
list_entry_put(struct list_page *p, const struct listed *e)
{
    assert(p->count < p->r->size);
    if (p->msgpack)
        put_msgpack_entry(p, e);
    else
        put_json_entry(p, e);
    p->count++;
}
