#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const names[ERR_COUNT_] = {
#define X(code) [ERR_##code] = #code,
    ERR_TABLE(X)
#undef X
};

enum err
err_set(struct errbuf *eb, enum err code, const char *fmt, ...)
{
    va_list ap;

    if (eb != NULL) {
        va_start(ap, fmt);
        (void)vsnprintf(eb->text, sizeof eb->text, fmt, ap);
        va_end(ap);
    }
    return code;
}

enum err
err_errno(struct errbuf *eb, enum err code, int error, const char *fmt, ...)
{
    va_list ap;
    char why[96];
    size_t len;

    if (eb == NULL)
        return code;
    va_start(ap, fmt);
    (void)vsnprintf(eb->text, sizeof eb->text, fmt, ap);
    va_end(ap);
    len = strlen(eb->text);
    (void)snprintf(eb->text + len, sizeof eb->text - len, ": %s",
                   strerror_r(error, why, sizeof why));
    return code;
}

void
err_prefix(struct errbuf *eb, const char *fmt, ...)
{
    va_list ap;
    struct errbuf old;
    size_t len;

    if (eb == NULL)
        return;
    old = *eb;
    va_start(ap, fmt);
    (void)vsnprintf(eb->text, sizeof eb->text, fmt, ap);
    va_end(ap);
    len = strlen(eb->text);
    (void)snprintf(eb->text + len, sizeof eb->text - len, ": %.*s",
                   (int)(sizeof eb->text - 3 - len), old.text);
}

const char *
err_name(enum err code)
{
    assert(code < ERR_COUNT_);
    return names[code];
}
