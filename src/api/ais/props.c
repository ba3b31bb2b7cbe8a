/* props: the properties of a bucket, shown and changed. What this program does itself (copies, access) is taken from the
 * bucket; the rest is kept as the bucket's properties and shown again. */
#include "api/ais/documents.h"
#include "api/ais/ops.h"
#include "base/mem.h"

void
ais_put_props(struct request *q, struct json *j, const char *key,
              const struct map_bucket *b)
{
    const char *access = map_bucket_property(b, "access");
    const char *features = map_bucket_property(b, "features");

    (void)q;
    json_open_object(j, key);
    json_open_object(j, "backend_bck");
    json_text(j, "name", "");
    json_text(j, "provider", "");
    json_open_object(j, "namespace");
    json_text(j, "uuid", "");
    json_text(j, "name", "");
    json_end(j);
    json_end(j);
    json_text(j, "provider", map_provider_name(b->provider));
    json_text(j, "Renamed", "");
    json_open_object(j, "extra");
    json_end(j);
    ais_put_bucket_sections(j, b);
    json_text(j, "access", access != NULL ? access : "18446744073709551615");
    json_text(j, "features", features != NULL ? features : "0");
    ais_put_number(j, "bid", b->id);
    ais_put_number(j, "created", (uint64_t)b->created_ms * 1000000u);
    json_end(j);
}
