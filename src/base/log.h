/* log: structured lines on stderr. One event a line: time (UTC, ms), level, event id,
 * message, fields.
 *
 * Any thread. A line is formatted on the stack of the caller (at most 2 KiB, cut with
 * "...") and handed to the sink: stderr by one write(2) until `rt` sets another. Values
 * are escaped: no CR, LF or control byte gets out. Secrets never come here. Level and
 * format change at run time.
 *
 *     time=2026-11-21T09:03:59.000Z level=info event=store.opened msg="disk opened" n=12
 *     {"time":"2026-11-21T09:03:59.000Z","level":"info","event":"store.opened",...}
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_LOGFMT, LOG_JSON };

/* One field. Make them with the macros below. */
struct log_field {
    const char *name;
    enum { LOG_TEXT, LOG_SPAN, LOG_U64, LOG_I64, LOG_F64 } kind;
    union {
        const char *text;
        struct span span;
        uint64_t u64;
        int64_t i64;
        double f64;
    } as;
};
/* A text that is NULL leaves its field out. */
#define L_TEXT(n, v) ((struct log_field){.name = (n), .kind = LOG_TEXT, .as.text = (v)})
#define L_SPAN(n, v) ((struct log_field){.name = (n), .kind = LOG_SPAN, .as.span = (v)})
#define L_U64(n, v)  ((struct log_field){.name = (n), .kind = LOG_U64, .as.u64 = (v)})
#define L_I64(n, v)  ((struct log_field){.name = (n), .kind = LOG_I64, .as.i64 = (v)})
#define L_F64(n, v)  ((struct log_field){.name = (n), .kind = LOG_F64, .as.f64 = (v)})

/* `event` is stable and dotted: "store.opened". */
void log_event(enum log_level level, const char *event, const char *message,
               const struct log_field *fields, unsigned count);
#define LOG(level, event, message, ...)                                                  \
    log_event((level), (event), (message), (struct log_field[]){__VA_ARGS__},            \
              sizeof((struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
#define LOG0(level, event, message) log_event((level), (event), (message), NULL, 0)

/* Whether such a line would be written: for callers whose fields are costly to compute.
 */
bool log_wants(enum log_level level);
void log_set_level(enum log_level level);
void log_set_format(enum log_format format);
/* The clock of the lines (sim gives its own); NULL is the system's. Nanoseconds since
 * 1970. */
void log_set_clock(uint64_t (*now_wall_ns)(void));
void log_set_sink(void (*sink)(const char *line, size_t len));
