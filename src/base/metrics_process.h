/* metrics_process: the process_* lines every Prometheus client has. For metrics.c. */
#pragma once
#include "base/buf.h"

/* What /proc does not tell is left out. */
void metrics_put_process(struct buf *out);
