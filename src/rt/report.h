/* report: what the runtime adds to the metrics page. Inside `rt` only; run.c calls it. */
#pragma once

void report_begin(unsigned loops);
void report_end(void);
