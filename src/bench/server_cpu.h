/* server_cpu: how much CPU time the server has used, where that can be known. */
#pragma once
#include "cli/session.h"

/* User and system seconds since its start: of process `pid`, or, when that is NULL, as the server's own /_/metrics says. Below 0: not
 * known. May switch. */
double server_cpu(struct session *s, const char *pid);
/* Of a process of this machine; below 0: there is none. */
double server_cpu_of(const char *pid);
