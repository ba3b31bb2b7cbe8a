/* job_plan: --dry-run of prefetch and evict: which objects the job would move, asked of the listing and of what the server keeps. */
#pragma once
#include "cli/session.h"

/* `names`: lines with braces; empty: all that begins with the place's key. The exit code, everything told. */
enum exit_code job_plan(struct session *s, const struct place *p, bool evict,
                        struct span names);
