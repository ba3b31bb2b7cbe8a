/* summary: what clients asked to be summarized, by the id that they come again with. Any thread. */
#pragma once

struct ais_summaries;
struct ais_summaries *ais_summaries_new(void);
void ais_summaries_free(struct ais_summaries **sp);
