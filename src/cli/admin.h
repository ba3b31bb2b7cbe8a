/* admin: calls to a server's own pages under /_/. */
#pragma once
#include "cli/session.h"

/* ERR_OK for 2xx; else the server's sentence, with the code that gives the right exit code. */
enum err admin_call(struct session *s, const struct s3_request *r, struct arena *a,
                    struct span *answer) MUST_CHECK;
