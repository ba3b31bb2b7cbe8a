/* audit: who did what, from where, and what came of it (promise S12): refused callers, deletes, changes of users, buckets and
 * settings. One line of JSON each, without any secret:
 *
 *   {"time":"…","id":"…","event":"user.grant","user":"alice","key":"FB…","peer":"10.0.0.7:51234","method":"POST",
 *    "path":"/_/users/bob/grants","outcome":"ok","target":"bob","rights":"read"}
 *
 * With a file (`log.audit`, 0600, appended to) lines of all loops are gathered and written together by loop 0. Without
 * one they go to the log, but for deletes, which would drown it.
 */
#pragma once
#include "base/err.h"
#include "base/log.h"

struct request;
struct audit;

/* `path` NULL: the log. On loop 0. May switch. */
enum err audit_open(const char *path, struct audit **out, struct errbuf *eb) MUST_CHECK;
void audit_close(struct audit **ap);

/* Adds a line to those of this request. `outcome` is "ok" or the name of a code. */
void audit_note(struct request *q, const char *event, const char *outcome,
                const struct log_field *fields, unsigned count);
#define AUDIT(q, event, outcome, ...)                                                    \
    audit_note((q), (event), (outcome), (struct log_field[]){__VA_ARGS__},               \
               sizeof((struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
/* Writes them; `durable`: they are on stable storage when it returns. A failure is logged: what was done is done. May
 * switch. */
void audit_write(struct request *q, bool durable);
/* For changes made by an administrator: noted, and durable before the answer. */
void audit_change(struct request *q, const char *event, enum err rc,
                  const struct log_field *fields, unsigned count);
#define AUDIT_CHANGE(q, event, rc, ...)                                                  \
    audit_change((q), (event), (rc), (struct log_field[]){__VA_ARGS__},                  \
                 sizeof((struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
