/* report: what the runtime adds to the metrics page. Inside `rt` only; run.c calls it. */
#pragma once

void report_begin(unsigned loop_count);
void report_end(void);
