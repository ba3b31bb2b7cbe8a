#include "cli/words.h"

#include <stdbool.h>

/* One word from *at on, written to *to; false: a quote is open. */
static bool
take_word(char **at, char **to)
{
    char quote = '\0';
    char *in = *at, *out = *to;

    for (; *in != '\0'; in++) {
        if (quote == '\0' && (*in == ' ' || *in == '\t'))
            break;
        if (quote == '\0' && (*in == '\'' || *in == '"'))
            quote = *in;
        else if (*in == quote)
            quote = '\0';
        else if (*in == '\\' && quote != '\'' && in[1] != '\0')
            *out++ = *++in;
        else
            *out++ = *in;
    }
    *at = in;
    *to = out;
    return quote == '\0';
}

enum err
words_cut(char *line, char *words[WORDS_MAX], int *count, struct errbuf *eb)
{
    char *at = line, *to = line;

    *count = 0;
    for (;;) {
        bool more;

        while (*at == ' ' || *at == '\t')
            at++;
        if (*at == '\0' || *at == '#')
            return ERR_OK;
        if (*count == WORDS_MAX)
            return err_set(eb, ERR_BAD_REQUEST, "more than %d words", WORDS_MAX);
        words[(*count)++] = to;
        if (!take_word(&at, &to))
            return err_set(eb, ERR_BAD_REQUEST, "a quote is not closed");
        more = *at != '\0';
        at += more;
        *to++ = '\0';
        if (!more)
            return ERR_OK;
    }
}
