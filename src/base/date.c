/* The dates of num.h: the proleptic Gregorian calendar, from 1970 to 9999, without locale or time zone database. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"

#define LAST_S INT64_C(253402300799) /* 9999-12-31T23:59:59Z */

static const char days[] = "ThuFriSatSunMonTueWed"; /* 1970-01-01 was a Thursday */
static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

struct moment {
    int year, month, day; /* month and day from 1 */
    int hour, minute, second;
    int weekday; /* index into `days` */
};

/* Days since 1970-01-01. Years begin in March here, so that the leap day is the last of
 * its year. */
static int64_t
days_of(int year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t m = month > 2 ? month - 3 : month + 9;
    int64_t in_years = y * 365 + y / 4 - y / 100 + y / 400;

    return in_years + (153 * m + 2) / 5 + day - 1 - 719468;
}

static struct moment
moment_of(int64_t unix_s)
{
    int64_t day = MIN(MAX(unix_s, 0), LAST_S) / 86400;
    int rest = (int)(MIN(MAX(unix_s, 0), LAST_S) % 86400);
    struct moment m = {
        .hour = rest / 3600, .minute = rest / 60 % 60, .second = rest % 60};
    int64_t since = day + 719468; /* days since 0000-03-01 */
    int64_t era = since / 146097; /* 400 years each */
    int64_t in_era = since % 146097;
    int64_t y = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    int64_t in_year = in_era - (365 * y + y / 4 - y / 100);
    int64_t month = (5 * in_year + 2) / 153;

    m.weekday = (int)(day % 7);
    m.day = (int)(in_year - (153 * month + 2) / 5 + 1);
    m.month = (int)(month < 10 ? month + 3 : month - 9);
    m.year = (int)(era * 400 + y + (m.month <= 2));
    return m;
}

/* Replies and lists contain dates, so no printf. */
static char *
date_put_number(char *at, int value, unsigned digits)
{
    for (unsigned i = digits; i > 0; i--) {
        at[i - 1] = (char)('0' + value % 10);
        value /= 10;
    }
    return at + digits;
}

static char *
date_put_text(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

/* Three numbers of two digits, with `between` them unless it is NUL. */
static char *
put_three(char *at, int a, int b, int c, char between)
{
    at = date_put_number(at, a, 2);
    if (between != '\0')
        *at++ = between;
    at = date_put_number(at, b, 2);
    if (between != '\0')
        *at++ = between;
    return date_put_number(at, c, 2);
}

void
date_http(int64_t unix_s, char out[NUM_DATE_TEXT])
{
    struct moment m = moment_of(unix_s);
    char *at = date_put_text(out, &days[(size_t)m.weekday * 3], 3);

    at = date_put_text(at, ", ", 2);
    at = date_put_number(at, m.day, 2);
    at = date_put_text(at, " ", 1);
    at = date_put_text(at, &months[(size_t)(m.month - 1) * 3], 3);
    at = date_put_text(at, " ", 1);
    at = date_put_number(at, m.year, 4);
    at = date_put_text(at, " ", 1);
    at = put_three(at, m.hour, m.minute, m.second, ':');
    date_put_text(at, " GMT", 5);
}

void
date_iso(int64_t unix_ms, char out[NUM_DATE_TEXT])
{
    int64_t ms = MIN(MAX(unix_ms, 0), LAST_S * 1000 + 999);
    struct moment m = moment_of(ms / 1000);
    char *at = date_put_number(out, m.year, 4);

    at = date_put_text(at, "-", 1);
    at = date_put_number(at, m.month, 2);
    at = date_put_text(at, "-", 1);
    at = date_put_number(at, m.day, 2);
    at = date_put_text(at, "T", 1);
    at = put_three(at, m.hour, m.minute, m.second, ':');
    at = date_put_text(at, ".", 1);
    at = date_put_number(at, (int)(ms % 1000), 3);
    date_put_text(at, "Z", 2);
}

void
date_amz(int64_t unix_s, char out[NUM_DATE_TEXT])
{
    struct moment m = moment_of(unix_s);
    char *at = date_put_number(out, m.year, 4);

    at = date_put_number(at, m.month, 2);
    at = date_put_number(at, m.day, 2);
    at = date_put_text(at, "T", 1);
    at = put_three(at, m.hour, m.minute, m.second, '\0');
    date_put_text(at, "Z", 2);
}

/* ---- parsing by pattern ---- */

static bool
date_digits(struct span *at, size_t count, int *out)
{
    int v = 0;

    if (at->len < count)
        return false;
    for (size_t i = 0; i < count; i++) {
        if (at->at[i] < '0' || at->at[i] > '9')
            return false;
        v = v * 10 + (at->at[i] - '0');
    }
    *at = span_from(*at, count);
    *out = v;
    return true;
}

static bool
month_name(struct span *at, int *out)
{
    for (int i = 0; i < 12; i++) {
        if (span_starts(*at, (struct span){months + 3 * (size_t)i, 3})) {
            *at = span_from(*at, 3);
            *out = i + 1;
            return true;
        }
    }
    return false;
}

/* Matches `text` with a pattern: Y year, y its last two digits, o month, N its name, D
 * day, d day with a leading blank, h m s time; any other character is itself. */
static bool
date_match(struct span text, const char *pattern, struct moment *m)
{
    struct span at = text;
    bool good = true;

    for (const char *p = pattern; *p != '\0' && good; p++) {
        switch (*p) {
        case 'Y':
            good = date_digits(&at, 4, &m->year);
            break;
        case 'y': /* RFC 850: there is no clock here, so the century turns at 1970 */
            good = date_digits(&at, 2, &m->year);
            m->year += m->year < 70 ? 2000 : 1900;
            break;
        case 'o':
            good = date_digits(&at, 2, &m->month);
            break;
        case 'N':
            good = month_name(&at, &m->month);
            break;
        case 'd':
            if (at.len > 0 && at.at[0] == ' ') {
                at = span_from(at, 1);
                good = date_digits(&at, 1, &m->day);
                break;
            }
            /* fallthrough */
        case 'D':
            good = date_digits(&at, 2, &m->day);
            break;
        case 'h':
            good = date_digits(&at, 2, &m->hour);
            break;
        case 'm':
            good = date_digits(&at, 2, &m->minute);
            break;
        case 's':
            good = date_digits(&at, 2, &m->second);
            break;
        default:
            good = at.len > 0 && at.at[0] == *p;
            at = span_from(at, 1);
        }
    }
    return good && at.len == 0;
}

static int
days_in(int year, int month)
{
    static const int table[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return table[month - 1] + (month == 2 && leap);
}

/* A leap second counts as the one before it. */
static enum err
date_seconds_of(const struct moment *m, int64_t *unix_s)
{
    if (m->year < 1970 || m->month < 1 || m->month > 12 || m->day < 1 ||
        m->day > days_in(m->year, m->month) || m->hour > 23 || m->minute > 59 ||
        m->second > 60)
        return ERR_BAD_REQUEST;
    *unix_s = days_of(m->year, m->month, m->day) * 86400 +
              (m->hour * 60 + m->minute) * INT64_C(60) + MIN(m->second, 59);
    return ERR_OK;
}

/* Skips "Sat, " or "Saturday, " or "Sat "; does not check that the name fits the date (RFC 9110, 5.6.7: be lenient
 * with what a sender computed wrong). */
static struct span
after_weekday(struct span text, const char *behind)
{
    size_t n = 0;

    while (n < text.len && ((text.at[n] | 32) >= 'a' && (text.at[n] | 32) <= 'z'))
        n++;
    if (n < 3 || n > 9 || !span_starts(span_from(text, n), span_of(behind)))
        return (struct span){"", 0};
    return span_from(text, n + strlen(behind));
}

enum err
date_http_parse(struct span text, int64_t *unix_s)
{
    struct span rest = after_weekday(text, ", ");
    struct moment m = {0};

    if (date_match(rest, "D N Y h:m:s GMT", &m) ||
        date_match(rest, "D-N-y h:m:s GMT", &m) ||
        date_match(after_weekday(text, " "), "N d h:m:s Y", &m))
        return date_seconds_of(&m, unix_s);
    return ERR_BAD_REQUEST;
}

enum err
date_amz_parse(struct span text, int64_t *unix_s)
{
    struct moment m = {0};

    return date_match(text, "YoDThmsZ", &m) ? date_seconds_of(&m, unix_s)
                                            : ERR_BAD_REQUEST;
}

enum err
date_iso_parse(struct span text, int64_t *unix_ms)
{
    struct moment m = {0};
    struct span rest = span_from(text, 19); /* "2026-11-21T09:03:59" */
    int ms = 0;
    int64_t s;

    if (text.len < 20 || !date_match((struct span){text.at, 19}, "Y-o-DTh:m:s", &m))
        return ERR_BAD_REQUEST;
    if (rest.at[0] == '.') {
        size_t n = 0;

        for (rest = span_from(rest, 1);
             n < rest.len && rest.at[n] >= '0' && rest.at[n] <= '9'; n++)
            ms = n < 3 ? ms * 10 + (rest.at[n] - '0') : ms;
        if (n == 0 || n > 9)
            return ERR_BAD_REQUEST;
        for (size_t i = n; i < 3; i++)
            ms *= 10;
        rest = span_from(rest, n);
    }
    if (!span_is(rest, "Z") && !span_is(rest, "+00:00"))
        return ERR_BAD_REQUEST;
    if (date_seconds_of(&m, &s) != ERR_OK)
        return ERR_BAD_REQUEST;
    *unix_ms = s * 1000 + ms;
    return ERR_OK;
}
