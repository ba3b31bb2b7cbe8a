/* versions: `ls --versions`, `rm --version ID` and `undo`. */
#pragma once
#include "cli/session.h"

enum exit_code versions_ls(struct session *s);
/* Deletes one version of one object for ever: says which, and asks. */
enum exit_code versions_rm(struct session *s);
