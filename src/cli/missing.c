#include "cli/missing.h"

#include "base/mem.h"

static bool
missing_is_object(struct s3_client *s3, struct span bucket, struct span key,
                  struct arena *a)
{
    struct errbuf eb = {{0}};
    struct s3_object_info info;
    struct s3_failure f;

    while (key.len > 0 && key.at[key.len - 1] == '/')
        key.len--;
    return key.len > 0 && s3_head(s3, bucket, key, a, &info, &f, &eb) == ERR_OK;
}

static bool
missing_has_more(struct s3_client *s3, struct span bucket, struct span key,
                 struct arena *a)
{
    bool folder = key.len > 0 && key.at[key.len - 1] == '/';
    struct s3_list below = {.bucket = bucket, .max_keys = 1};
    struct s3_list_page page = {0};
    struct errbuf eb = {{0}};
    struct s3_failure f;

    below.prefix = span_of(arena_printf(a, "%.*s%s", SPAN_ARG(key), folder ? "" : "/"));
    return s3_list_objects(s3, &below, a, &page, &f, &eb) == ERR_OK && page.count > 0;
}

enum err
missing_name(struct s3_client *s3, struct span bucket, struct span key, bool recursive,
             const char *does, struct errbuf *eb)
{
    struct arena *a = arena_new(KIB(16), MIB(1));
    bool folder = key.len > 0 && key.at[key.len - 1] == '/';

    if (recursive) {
        bool object = missing_is_object(s3, bucket, key, a);

        err_set(eb, ERR_NOT_FOUND, "nothing is below s3://%.*s/%.*s%s%s%s%s",
                SPAN_ARG(bucket), SPAN_ARG(key), folder ? "" : "/",
                object ? "; an object has that name: " : "", object ? does : "",
                object ? " it without -r" : "");
    } else {
        bool more = missing_has_more(s3, bucket, key, a);

        err_set(eb, ERR_NOT_FOUND, "there is no object s3://%.*s/%.*s%s%s%s",
                SPAN_ARG(bucket), SPAN_ARG(key), more ? "; -r " : "", more ? does : "",
                more ? " what is below that name" : "");
    }
    arena_free(&a);
    return ERR_NOT_FOUND;
}
