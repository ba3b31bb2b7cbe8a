#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static const char *const names[ERR_COUNT_] = {
#define X(code) [ERR_##code] = #code,
    ERR_TABLE(X)
#undef X
};

/* gcc's -Wformat-overflow makes a build error of a NULL that it can see for "%s"; tests find the others. */
static void
err_check(const struct errbuf *eb)
{
#ifdef FB_TEST_HOOKS
    assert(strstr(eb->text, "(null)") == NULL);
#endif
    assert(memchr(eb->text, '\0', sizeof eb->text) != NULL);
}

enum err
err_set(struct errbuf *eb, enum err code, const char *fmt, ...)
{
    va_list ap;

    if (eb != NULL) {
        va_start(ap, fmt);
        (void)vsnprintf(eb->text, sizeof eb->text, fmt, ap);
        va_end(ap);
        err_check(eb);
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
    err_check(eb);
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
    err_check(eb);
}

const char *
err_name(enum err code)
{
    assert(code < ERR_COUNT_);
    return names[code];
}
