/* missing: the sentence for a name that stands for nothing: what was looked for, and which flag would find more. */
#pragma once
#include "cli/session.h"

/* Sets ERR_NOT_FOUND in eb. `recursive`: what is below the name was wanted, and nothing is there; else the object itself. `does` is what
 * -r would do: "copies". Asks the server for what is beside the name. May switch. */
enum err missing_name(struct s3_client *s3, struct span bucket, struct span key,
                      bool recursive, const char *does, struct errbuf *eb);
