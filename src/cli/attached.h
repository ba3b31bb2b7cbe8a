/* attached: says of buckets that a verb deletes from whether their objects live at a remote. Fibers of one loop. */
#pragma once
#include "cli/session.h"

/* A few buckets and what the server said of them; zeroed: none asked yet. */
#define ATTACHED_MAX 16
struct attached {
    struct attached_bucket {
        char *name, *endpoint, *remote; /* owned; endpoint NULL: not attached */
        bool noted;
    } at[ATTACHED_MAX];
    unsigned count;
    bool asked; /* a question has named the remote: no note repeats it */
};
void attached_fini(struct attached *t);
/* Asks once for each bucket. *out is NULL when the bucket is not attached, or the server does not say: it is no Forebay, or denies
 * it. May switch. */
enum err attached_find(struct attached *t, struct s3_client *s3, struct span bucket,
                       const struct attached_bucket **out, struct errbuf *eb) MUST_CHECK;
/* " at the remote http://host:port, bucket b", for sentences; "" of a bucket that is not attached. Never fails: what cannot be asked is
 * not attached. May switch. */
#define ATTACHED_TEXT 512
const char *attached_text(struct attached *t, struct s3_client *s3, struct span bucket,
                          char out[ATTACHED_TEXT]);
/* One line on standard error for each attached bucket: what is deleted there is deleted at the remote. May switch. */
void attached_note(struct attached *t, struct session *s, struct s3_client *s3,
                   struct span bucket);
