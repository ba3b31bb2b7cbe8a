/* num: numbers, sizes, durations and dates as people and protocols write them. All
 * strict: the whole text or ERR_BAD_REQUEST. Any thread. */
#pragma once
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

/* Decimal digits only, no sign. */
enum err num_u64(struct span text, uint64_t *out) MUST_CHECK;
enum err num_hex64(struct span text, uint64_t *out) MUST_CHECK;
/* "4096", "64KiB", "10GB", "1.5GiB": KiB powers of two, KB powers of ten; no space, case
 * as written or lower. */
enum err num_size(struct span text, uint64_t *out, struct errbuf *eb) MUST_CHECK;
/* "250ms", "10s", "5m", "2h", "7d" -> milliseconds. */
enum err num_duration_ms(struct span text, uint64_t *out, struct errbuf *eb) MUST_CHECK;

/* Sizes for people: "1.2 MiB", "512 B". Returns out. */
#define NUM_SIZE_TEXT 24
const char *num_size_text(uint64_t bytes, char out[NUM_SIZE_TEXT]);
/* In units of 1,024 (as above), of 1,000 ("1.5 MB"), or "1500000". */
enum num_units { NUM_IEC, NUM_SI, NUM_RAW };
const char *num_size_in(uint64_t bytes, enum num_units units, char out[NUM_SIZE_TEXT]);
/* "iec", "si", "raw". ERR_BAD_REQUEST. */
enum err num_units_parse(const char *text, enum num_units *out) MUST_CHECK;

/* Times are nanoseconds or seconds since 1970, UTC. No locale, no time zone. */
#define NUM_DATE_TEXT 40
/* "Sat, 21 Nov 2026 15:16:00 GMT", "2026-11-21T09:03:59.000Z", "20261121T151600Z". */
void date_http(int64_t unix_s, char out[NUM_DATE_TEXT]);
void date_iso(int64_t unix_ms, char out[NUM_DATE_TEXT]);
void date_amz(int64_t unix_s, char out[NUM_DATE_TEXT]);
/* RFC 1123, RFC 850 or asctime. */
enum err date_http_parse(struct span text, int64_t *unix_s) MUST_CHECK;
enum err date_amz_parse(struct span text, int64_t *unix_s) MUST_CHECK;
enum err date_iso_parse(struct span text, int64_t *unix_ms) MUST_CHECK;
