/* uploads: `ls --uploads` and `rm --uploads`: unfinished uploads in parts. They take room, and no listing shows them. */
#pragma once
#include "cli/session.h"

enum exit_code uploads_ls(struct session *s);
/* Counts and asks first, as `rm -r`. */
enum exit_code uploads_rm(struct session *s);
