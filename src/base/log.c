#include "base/log.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/num.h"
#include "base/utf8.h"

#define LINE_BYTES 2048
#define VALUE_MAX  1024 /* one value must not displace the others */
/* Kept free, so that a truncated line still ends well: ..."}\n, and one more ... */
#define ENDING 16

static const char *const level_names[] = {"debug", "info", "warn", "error"};

static _Atomic(int) least = LOG_INFO;
static _Atomic(int) used_format = LOG_LOGFMT;
static _Atomic(uint64_t (*)(void)) used_clock;
static _Atomic(void (*)(const char *, size_t)) used_sink;

struct line {
    char text[LINE_BYTES];
    size_t len;
    bool json;
};

/* ---- one line ---- */

/* All or nothing. */
static bool
log_put(struct line *l, const char *data, size_t len)
{
    if (len > LINE_BYTES - ENDING || l->len > LINE_BYTES - ENDING - len)
        return false;
    memcpy(l->text + l->len, data, len);
    l->len += len;
    return true;
}

/* May use what ENDING keeps free. */
static void
put_ending(struct line *l, const char *text)
{
    size_t len = strlen(text);

    assert(l->len + len <= LINE_BYTES);
    memcpy(l->text + l->len, text, len);
    l->len += len;
}

/* Writes the next character of s to out, escaped; returns how much of s it took. Invalid UTF-8 is shown byte by byte
 * in logfmt, and as U+FFFD in JSON, which has no other form. */
static size_t
log_escape(struct span s, bool json, char out[8], size_t *out_len)
{
    uint32_t code = 0;
    size_t took = utf8_next(s, &code);

    if (took == 0) {
        *out_len = (size_t)snprintf(out, 8, json ? "\\ufffd" : "\\x%02x",
                                    (unsigned char)s.at[0]);
        return 1;
    }
    if (code == '"' || code == '\\')
        *out_len = (size_t)snprintf(out, 8, "\\%c", (char)code);
    else if (code == '\n' || code == '\r' || code == '\t')
        *out_len = (size_t)snprintf(out, 8, "\\%c",
                                    code == '\n'   ? 'n'
                                    : code == '\r' ? 'r'
                                                   : 't');
    else if (code < 0x20 ||
             (code >= 0x7F && code < 0xA0)) /* C1 too: terminals interpret it */
        *out_len = (size_t)snprintf(out, 8, "\\u%04x", (unsigned)code);
    else
        memcpy(out, s.at, *out_len = took);
    return took;
}

static bool
needs_quotes(struct span s)
{
    if (s.len == 0)
        return true;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.at[i];

        if (c <= ' ' || c >= 0x7F || c == '"' || c == '\\' || c == '=')
            return true;
    }
    return false;
}

/* The caller has checked the room for both quotes. */
static void
log_put_text(struct line *l, struct span s)
{
    bool quotes = l->json || needs_quotes(s);
    size_t start = l->len;

    if (quotes)
        log_put(l, "\"", 1);
    while (s.len > 0) {
        char out[8];
        size_t len = 0;
        size_t took = log_escape(s, l->json, out, &len);

        if (l->len - start + len > VALUE_MAX || !log_put(l, out, len)) {
            put_ending(l, "...");
            break;
        }
        s = span_from(s, took);
    }
    if (quotes)
        put_ending(l, "\"");
}

static void
log_put_value(struct line *l, const struct log_field *f)
{
    char number[40];
    int n = 0;

    switch (f->kind) {
    case LOG_TEXT:
        log_put_text(l, span_of(f->as.text));
        return;
    case LOG_SPAN:
        log_put_text(l, f->as.span);
        return;
    case LOG_U64:
        n = snprintf(number, sizeof number, "%" PRIu64, f->as.u64);
        break;
    case LOG_I64:
        n = snprintf(number, sizeof number, "%" PRId64, f->as.i64);
        break;
    case LOG_F64:
        n = isfinite(f->as.f64) ? snprintf(number, sizeof number, "%.6g", f->as.f64)
                                : snprintf(number, sizeof number, "null");
        break;
    }
    log_put(l, number, (size_t)n);
}

/* A field without any room is omitted, and a text that is NULL. */
static bool
log_put_field(struct line *l, const struct log_field *f)
{
    size_t name_len = strlen(f->name);
    const size_t most_number = 24;

    if (f->kind == LOG_TEXT && f->as.text == NULL)
        return true;
    if (l->len + name_len + most_number + sizeof ",\"\":" > LINE_BYTES - ENDING)
        return false;
    if (l->len > 0)
        log_put(l, l->json ? "," : " ", 1);
    else if (l->json)
        log_put(l, "{", 1);
    if (l->json)
        log_put(l, "\"", 1);
    log_put(l, f->name, name_len);
    log_put(l, l->json ? "\":" : "=", l->json ? 2 : 1);
    log_put_value(l, f);
    return true;
}

static uint64_t
wall_ns(void)
{
    uint64_t (*clock)(void) = atomic_load(&used_clock);
    struct timespec t = {0};

    if (clock != NULL)
        return clock();
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A log that cannot be written cannot report it. */
static void
write_stderr(const char *line, size_t len)
{
    while (len > 0) {
        ssize_t n = write(STDERR_FILENO, line, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        line += n;
        len -= (size_t)n;
    }
}

void
log_event(enum log_level level, const char *event, const char *message,
          const struct log_field *fields, unsigned count)
{
    void (*sink)(const char *, size_t) = atomic_load(&used_sink);
    struct line l;
    char when[NUM_DATE_TEXT];

    if (!log_wants(level))
        return;
    l.len = 0;
    l.json = atomic_load_explicit(&used_format, memory_order_relaxed) == LOG_JSON;
    date_iso((int64_t)(wall_ns() / 1000000), when);
    log_put_field(&l, &L_TEXT("time", when));
    log_put_field(&l, &L_TEXT("level", level_names[level]));
    log_put_field(&l, &L_TEXT("event", event));
    log_put_field(&l, &L_TEXT("msg", message));
    for (unsigned i = 0; i < count; i++) {
        if (!log_put_field(&l, &fields[i])) {
            put_ending(&l, l.json ? "" : "...");
            break;
        }
    }
    put_ending(&l, l.json ? "}\n" : "\n");
    (sink != NULL ? sink : write_stderr)(l.text, l.len);
}

/* ---- settings ---- */

bool
log_wants(enum log_level level)
{
    assert((unsigned)level < ARRAY_LEN(level_names));
    return (int)level >= atomic_load_explicit(&least, memory_order_relaxed);
}

void
log_set_level(enum log_level level)
{
    atomic_store(&least, (int)level);
}

void
log_set_format(enum log_format format)
{
    atomic_store(&used_format, (int)format);
}

void
log_set_clock(uint64_t (*now_wall_ns)(void))
{
    atomic_store(&used_clock, now_wall_ns);
}

void
log_set_sink(void (*sink)(const char *line, size_t len))
{
    atomic_store(&used_sink, sink);
}
