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
    struct admin_page page;

    AUDIT_CHANGE(q, "secrets.rotate", rc, L_U64("sealed", count));
    if (rc != ERR_OK)
        return fault_from(q, rc, &eb);
    admin_page_begin(&page, KIB(1));
    json_open_object(&page.j, NULL);
    json_u64(&page.j, "sealed", count);
    json_end(&page.j);
    return admin_page_answer(q, &page, 200);
}
