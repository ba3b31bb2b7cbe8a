#include "cli/admin.h"

#include <stdio.h>
#include <stdlib.h>

#include "wire/json_get.h"

enum err
admin_call(struct session *s, const struct s3_request *r, struct arena *a,
           struct span *answer)
{
    int status = 0;
    enum err rc = s3_request(s->s3, r, a, &status, answer, &s->eb);

    if (rc != ERR_OK || (status >= 200 && status < 300))
        return rc;
    return err_set(&s->eb,
                   status == 409   ? ERR_EXISTS
                   : status == 403 ? ERR_DENIED
                   : status == 404 ? ERR_NOT_FOUND
                   : status >= 500 ? ERR_BACKEND
                                   : ERR_BAD_REQUEST,
                   "%.*s", SPAN_ARG(*answer));
}

enum err
admin_list(struct session *s, struct span answer, const char *name, json_t **doc)
{
    *doc = json_loadb(answer.at, answer.len, 0, NULL);
    if (json_is_array(json_object_get(*doc, name)))
        return ERR_OK;
    json_decref(*doc);
    *doc = NULL;
    return err_set(&s->eb, ERR_BACKEND, "the server's response is not a list of %s",
                   name);
}

bool
admin_print(const struct session *s, struct span answer, const char *list,
            const char *before, const char *name)
{
    json_t *doc, *one;
    size_t i;

    if (s->output == OUTPUT_TABLE)
        return false;
    if (s->output == OUTPUT_JSON) {
        printf("%.*s\n", SPAN_ARG(answer));
        return true;
    }
    doc = json_loadb(answer.at, answer.len, 0, NULL);
    json_array_foreach(json_object_get(doc, list), i, one)
    {
        char *line = s->output == OUTPUT_JSONL ? json_dumps(one, JSON_COMPACT) : NULL;

        if (line != NULL)
            puts(line);
        else
            printf("%s%s\n", before, json_get_text(one, name, ""));
        free(line);
    }
    json_decref(doc);
    return true;
}
