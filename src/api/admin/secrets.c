/* secrets: the key under which keys of remotes are sealed. */
#include "api/admin/admin.h"
#include "api/audit.h"
#include "base/mem.h"
#include "wire/json.h"

enum err
admin_secrets_rotate(struct request *q)
{
    struct errbuf eb = {{0}};
    unsigned count = 0;
    enum err rc = secrets_rotate(cloud_secrets(q->api->options.cloud), &count, &eb);
    struct buf text;
    struct json j;

    AUDIT_CHANGE(q, "secrets.rotate", rc, L_U64("sealed", count));
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    buf_init(&text, KIB(1));
    json_begin(&j, &text);
    json_open_object(&j, NULL);
    json_u64(&j, "sealed", count);
    json_end(&j);
    admin_answer_json(q, 200, buf_span(&text));
    buf_fini(&text);
    return ERR_OK;
}
