/* explain: what an option of the server or an error code means. man: this program's manual page, from the tables of --help. */
#include <stdio.h>

#include "base/mem.h"
#include "cli/advice.h"
#include "cli/verbs.h"
#include "conf/conf.h"

static const char *const examples[] = {"forebay explain cache.budget",
                                       "forebay explain E1203", "forebay explain", NULL};
static const struct verb verb = {
    .name = "explain",
    .summary = "explain a server option or an error code",
    .arguments = "[OPTION | CODE]",
    .least = 0,
    .most = 1,
    .examples = examples,
};

static enum exit_code
explain_run(const struct args *a)
{
    struct errbuf eb = {{0}};
    enum err rc = ERR_OK;
    struct buf out;

    buf_init(&out, MIB(1));
    if (a->count == 0)
        advice_list(&out);
    else if (!advice_explain(span_of(a->at[0]), &out))
        rc = conf_explain(span_of(a->at[0]), &out, &eb);
    if (rc == ERR_OK)
        fwrite(out.at, 1, out.len, stdout);
    buf_fini(&out);
    if (rc == ERR_OK)
        return EXIT_OK_;
    err_prefix(&eb, "neither an error code nor an option");
    (void)cli_fail(ERR_NOT_FOUND, &eb);
    return EXIT_NOT_FOUND;
}
const struct cli_verb cli_explain = {&verb, explain_run};

/* ---- man ---- */

static const char *const man_examples[] = {
    "forebay man | man -l -", "forebay man > /usr/local/share/man/man1/forebay.1", NULL};
static const struct verb man = {.name = "man",
                                .summary = "print the manual page",
                                .arguments = "",
                                .examples = man_examples};

/* troff takes a leading dot or quote and every backslash for its own. */
static void
explain_put_text(struct buf *out, const char *text)
{
    bool line_begins = true;

    for (; *text != '\0'; text++) {
        if (line_begins && (*text == '.' || *text == '\''))
            buf_puts(out, "\\&");
        if (*text == '\\')
            buf_puts(out, "\\e");
        else if (*text == '-')
            buf_puts(out, "\\-");
        else
            buf_putc(out, *text);
        line_begins = *text == '\n';
    }
}

static void
put_flags(struct buf *out, const struct flag *f)
{
    for (; f != NULL && f->name != NULL; f++) {
        buf_puts(out, ".TP\n\\fB");
        if (f->letter != 0) {
            buf_printf(out, "\\-%c\\fR, \\fB", f->letter);
        }
        buf_puts(out, "\\-\\-");
        explain_put_text(out, f->name);
        buf_puts(out, "\\fR");
        if (f->value != NULL) {
            buf_puts(out, " \\fI");
            explain_put_text(out, f->value);
            buf_puts(out, "\\fR");
        }
        buf_putc(out, '\n');
        explain_put_text(out, f->help);
        buf_putc(out, '\n');
    }
}

static void
put_verb(void *arg, const struct verb *v)
{
    struct buf *out = arg;

    buf_puts(out, ".SS ");
    explain_put_text(out, v->name);
    buf_putc(out, ' ');
    explain_put_text(out, v->arguments);
    buf_putc(out, '\n');
    explain_put_text(out, v->summary);
    buf_puts(out, ".\n");
    put_flags(out, v->flags);
    if (v->more != NULL) {
        buf_puts(out, ".PP\n");
        explain_put_text(out, v->more);
        buf_putc(out, '\n');
    }
    buf_puts(out, ".PP\n.nf\n");
    for (const char *const *e = v->examples; e != NULL && *e != NULL; e++) {
        buf_puts(out, "    ");
        explain_put_text(out, *e);
        buf_putc(out, '\n');
    }
    buf_puts(out, ".fi\n");
}

static enum exit_code
run_man(const struct args *a)
{
    struct buf out;

    (void)a;
    buf_init(&out, MIB(4));
    buf_puts(&out,
             ".TH FOREBAY 1 \"\" \"Forebay " FOREBAY_VERSION "\" \"User Commands\"\n"
             ".SH NAME\nforebay \\- an object store, a fast tier before others, and a "
             "client for any S3 server\n"
             ".SH SYNOPSIS\n\\fBforebay\\fR \\fIVERB\\fR [\\fIFLAGS\\fR] "
             "[\\fIARGUMENTS\\fR]\n.SH VERBS\n");
    verbs_each(put_verb, &out);
    buf_puts(&out, ".SH EXIT STATUS\n.nf\n0  ok\n1  differs, or done in part\n2  usage\n"
                   "3  not found\n4  denied\n5  unavailable, or a timeout\n"
                   "6  checksum mismatch\n7  interrupted\n.fi\n.SH ERRORS\n.nf\n");
    advice_list(&out);
    buf_puts(&out, ".fi\n");
    fwrite(out.at, 1, out.len, stdout);
    buf_fini(&out);
    return EXIT_OK_;
}
const struct cli_verb cli_man = {&man, run_man};
