/* misc: what an administrator asks of a cluster and has no meaning on this one, and what is not built. */
#include <string.h>

#include "api/ais/documents.h"
#include "api/ais/ops.h"
#include "base/mem.h"
#include "object/evict.h"

enum err
ais_do_nothing(struct request *q)
{
    enum err rc = q->ais->place == AIS_REVERSE ? ais_check_node(q) : ERR_OK;

    return rc == ERR_OK ? ais_answer_empty(q, 200) : rc;
}

/* Names of the query are settings: "checksum.type". None can be changed here. */
enum err
ais_set_config(struct request *q)
{
    for (size_t i = 0; i < q->query.count; i++) {
        struct span name = q->query.at[i].name;
        char text[AIS_SETTING_NAME];
        bool known = span_is(name, "transient");

        for (const struct ais_setting *s = ais_settings; s->section != NULL && !known;
             s++) {
            ais_setting_name(s, text);
            known = span_is(name, text);
        }
        if (!known)
            return ais_fault(q, 400, NULL, "unknown configuration setting \"%.*s\"",
                             (int)MIN(name.len, 64u), name.at);
    }
    return ais_fault(
        q, 501, "ErrUnsupp",
        "the configuration is not changed by this API: use the server's options, or the "
        "properties of a bucket");
}

enum err
ais_not_built(struct request *q)
{
    return ais_fault(q, 501, "ErrUnsupp", "%.*s %s is not implemented",
                     SPAN_ARG(q->http->head->method_text), ais_place_path(q->ais->place));
}

/* An object of a remote bucket that is kept here goes; the remote keeps it. */
enum err
ais_evict_object(struct request *q)
{
    struct object_evicting *e;
    struct errbuf eb = {{0}};
    enum err rc;

    if (!q->bucket->cached)
        return ais_fault(q, 400, NULL,
                         "bucket \"%s\" is not remote: evicting would lose the object",
                         q->ais->bucket.text);
    e = arena_alloc(q->arena, sizeof *e);
    *e = (struct object_evicting){.absent = 0};
    rc = object_evict_names(q->api->options.object, q->bucket, &q->name.key, 1, e, &eb);
    if (rc != ERR_OK)
        return ais_fault_from(q, rc, &eb);
    if (e->kept > 0)
        return ais_fault(q, 409, "ErrBusy",
                         "object \"%s/%.*s\" is pinned or its last write is in doubt",
                         q->ais->bucket.text, (int)MIN(q->name.key.len, 200u),
                         q->name.key.at);
    return e->absent > 0 ? ais_no_object(q, &q->ais->bucket, q->ais->object)
                         : ais_answer_empty(q, 200);
}
