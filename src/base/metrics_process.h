/* metrics_process: the process_* lines every Prometheus client has. For metrics.c. */
#pragma once
#include "base/buf.h"

/* Omits what /proc does not have. */
void metrics_put_process(struct buf *out);
