/* audit: the audit log (promise S12): rejected callers, deletes, and changes of users, buckets and settings, with caller, address
 * and outcome. One line of JSON for each event, without secrets:
 *
 *   {"time":"…","id":"…","event":"user.grant","user":"alice","key":"FB…","peer":"10.0.0.7:51234","method":"POST",
 *    "path":"/_/users/bob/grants","outcome":"ok","target":"bob","rights":"read"}
 *
 * With a file (`log.audit`, 0600, appended to) loop 0 writes the lines of all loops in batches. Without a file, all events except deletes go to the log; deletes are too
 * many.
 */
#pragma once
#include "base/err.h"
#include "base/log.h"

struct request;
struct audit;

/* `path` NULL: the log. On loop 0. May switch. */
enum err audit_open(const char *path, struct audit **out, struct errbuf *eb) MUST_CHECK;
void audit_close(struct audit **ap);

/* Adds a line to the pending lines of this request. `outcome` is "ok" or the name of a code. */
void audit_note(struct request *q, const char *event, const char *outcome,
                const struct log_field *fields, unsigned count);
#define AUDIT(q, event, outcome, ...)                                                    \
    audit_note((q), (event), (outcome), (struct log_field[]){__VA_ARGS__},               \
               sizeof((struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
/* Writes the pending lines; `durable`: they are on stable storage when it returns. A failure is only logged: the operation
 * is complete already. May
 * switch. */
void audit_write(struct request *q, bool durable);
/* For administrative changes: adds a line and writes it durably, before the reply. May switch. */
void audit_change(struct request *q, const char *event, enum err rc,
                  const struct log_field *fields, unsigned count);
#define AUDIT_CHANGE(q, event, rc, ...)                                                  \
    audit_change((q), (event), (rc), (struct log_field[]){__VA_ARGS__},                  \
                 sizeof((struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
