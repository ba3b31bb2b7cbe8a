/* check: the smallest test harness that says what failed where. A program is a list of cases:
 *
 *     static void test_adds(void) { CHECK(1 + 1 == 2); }
 *     int main(int argc, char **argv) { RUN(test_adds); return check_done(); }
 *
 * CHECK goes on after a failure; REQUIRE ends the case's function. With an argument only cases whose name
 * contains it run (set by CHECK_MAIN). The last line reads "N passed, N failed".
 */
#pragma once
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A wait that only a hang outlasts: ctest ends the program before it. */
#define PATIENCE_MS 3600000u

static unsigned check_failures_, check_cases_, check_cases_failed_;
static const char *check_only_;

#define CHECK(cond)                                                                      \
    do {                                                                                 \
        if (!(cond)) {                                                                   \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond);           \
            check_failures_++;                                                           \
        }                                                                                \
    } while (0)
#define CHECK_U64(got, want)                                                             \
    do {                                                                                 \
        unsigned long long got_ = (unsigned long long)(got),                             \
                           want_ = (unsigned long long)(want);                           \
        if (got_ != want_) {                                                             \
            fprintf(stderr, "%s:%d: %s is %llu, wanted %llu\n", __FILE__, __LINE__,      \
                    #got, got_, want_);                                                  \
            check_failures_++;                                                           \
        }                                                                                \
    } while (0)
#define CHECK_STR(got, want)                                                             \
    do {                                                                                 \
        const char *got_ = (got), *want_ = (want);                                       \
        if (got_ == NULL || strcmp(got_, want_) != 0) {                                  \
            fprintf(stderr, "%s:%d: %s is \"%s\", wanted \"%s\"\n", __FILE__, __LINE__,  \
                    #got, got_ != NULL ? got_ : "(null)", want_);                        \
            check_failures_++;                                                           \
        }                                                                                \
    } while (0)
/* `says` must be part of the sentence. */
#define CHECK_SAYS(text, says)                                                           \
    do {                                                                                 \
        if (strstr((text), (says)) == NULL) {                                            \
            fprintf(stderr, "%s:%d: \"%s\" does not say \"%s\"\n", __FILE__, __LINE__,   \
                    (text), (says));                                                     \
            check_failures_++;                                                           \
        }                                                                                \
    } while (0)
#define REQUIRE(cond)                                                                    \
    do {                                                                                 \
        if (!(cond)) {                                                                   \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #cond);           \
            check_failures_++;                                                           \
            return;                                                                      \
        }                                                                                \
    } while (0)
#define RUN(fn)                                                                          \
    do {                                                                                 \
        if (check_only_ == NULL || strstr(#fn, check_only_) != NULL) {                   \
            unsigned before_ = check_failures_;                                          \
            fn();                                                                        \
            check_cases_++;                                                              \
            if (check_failures_ != before_) {                                            \
                check_cases_failed_++;                                                   \
                fprintf(stderr, "FAILED %s\n", #fn);                                     \
            }                                                                            \
        }                                                                                \
    } while (0)
#define CHECK_MAIN(argc, argv) (check_only_ = (argc) > 1 ? (argv)[1] : NULL)

static inline int
check_done(void)
{
    printf("%u passed, %u failed\n", check_cases_ - check_cases_failed_,
           check_cases_failed_);
    return check_cases_failed_ > 0 || check_cases_ == 0;
}
