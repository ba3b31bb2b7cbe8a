/* reload: what changes while the node serves: users of files, the certificate, what is logged.
 *
 * SIGHUP reads the configuration again and prepares every change before it applies the first: all of them, or none. The certificate files are also polled,
 * because renewal tools rarely send SIGHUP.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/metrics.h"
#include "node/internal.h"

#define LOOK_EVERY_MS 2000
#define TICKETS_LIVE_MS                                                                  \
    (12 * 3600 * 1000ull) /* then keys of session tickets are replaced */
#define ENDS_SOON_S (14 * 86400)

/* ---- users ---- */

static enum err
load_file(struct auth *a, const char *path, struct errbuf *eb)
{
    struct rt_dir *dir = NULL;
    const char *name;
    enum err rc = rt_dir_open_of(path, &dir, &name, eb);

    if (rc == ERR_OK)
        rc = auth_load(a, dir, name, eb);
    rt_dir_close(&dir);
    return rc;
}

enum err
node_load_users(struct node *n, struct auth *a, const char *more, struct errbuf *eb)
{
    enum err rc = n->members != NULL ? node_cluster_user(n, a, eb) : ERR_OK;

    if (rc == ERR_OK)
        rc = auth_make_first(a, n->folders.dot, NODE_CREDENTIALS, eb);

    return rc == ERR_OK && more != NULL ? load_file(a, more, eb) : rc;
}

/* ---- the certificate ---- */

struct make_tls {
    struct tls_server_options options;
    struct tls_context *made;
    enum err rc;
    struct errbuf eb;
};

static void
make_tls_work(void *arg)
{
    struct make_tls *m = arg;

    m->rc = tls_server_new(&m->options, &m->made, &m->eb);
}

/* May switch. */
static enum err
make_tls(const char *cert, const char *key, struct tls_context **out, struct errbuf *eb)
{
    struct make_tls m = {.options = {cert, key}};
    enum err rc = rt_blocking(make_tls_work, &m, DEADLINE_NEVER);

    *out = m.made;
    if (rc != ERR_OK)
        return err_set(eb, rc, "reading the certificate was interrupted");
    if (m.rc != ERR_OK && eb != NULL)
        *eb = m.eb;
    return m.rc;
}

static void
put_end_of_certificate(struct buf *out, void *arg)
{
    const struct node *n = arg;

    buf_printf(out,
               "# HELP forebay_certificate_expiry_timestamp_seconds when the certificate "
               "ends\n"
               "# TYPE forebay_certificate_expiry_timestamp_seconds gauge\n"
               "forebay_certificate_expiry_timestamp_seconds{name=\"server\"} %" PRId64
               "\n",
               tls_server_ends_s(n->tls));
}

enum err
node_open_tls(struct node *n)
{
    const struct node_live *l = &n->o->live;
    enum err rc;

    if (l->tls_cert == NULL)
        return ERR_OK;
    rc = make_tls(l->tls_cert, l->tls_key, &n->tls, &n->eb);
    if (rc == ERR_OK)
        metrics_register(put_end_of_certificate, n);
    return rc;
}

void
node_close_tls(struct node *n)
{
    if (n->tls == NULL)
        return;
    metrics_unregister(n);
    tls_context_free(&n->tls);
}

static void
report_cert_end(const struct node *n)
{
    int64_t left = tls_server_ends_s(n->tls) - (int64_t)(rt_wall_ns() / 1000000000u);

    if (left < ENDS_SOON_S)
        LOG(LOG_WARN, "tls.ends", "the certificate ends soon, or has ended",
            L_I64("days", left / 86400));
}

struct look {
    const struct tls_context *tls;
    bool stale;
};

static void
reload_look_work(void *arg)
{
    struct look *l = arg;

    l->stale = tls_server_is_stale(l->tls);
}

struct paths {
    char *cert, *key; /* those of the last reload; owned */
};

/* Loads the certificate for new connections; if the files are unusable, keeps the old one. May switch. */
static void
reload_renew(struct node *n, const struct paths *p, const char *why)
{
    struct tls_context *fresh = NULL;
    struct errbuf eb = {{0}};
    enum err rc = make_tls(p->cert, p->key, &fresh, &eb);

    if (rc == ERR_OK) {
        tls_server_adopt(n->tls, &fresh);
        n->tls_trouble[0] = '\0';
        LOG(LOG_INFO, "tls.renewed", why, L_I64("ends_s", tls_server_ends_s(n->tls)));
        report_cert_end(n);
    } else if (!rt_cancelled() && strcmp(n->tls_trouble, eb.text) != 0) {
        snprintf(n->tls_trouble, sizeof n->tls_trouble, "%s", eb.text);
        LOG(LOG_ERROR, "tls.not_renewed",
            "the certificate on disk cannot be used; the old one stays",
            L_TEXT("why", eb.text));
    }
}

/* ---- SIGHUP ---- */

/* The prepared changes: every step that can fail runs before anything changes. */
struct change {
    struct node_live to;
    struct auth *users;
    struct tls_context *tls;
};

static enum err
prepare(struct node *n, struct change *c, struct errbuf *eb)
{
    struct auth_options a = {.required = true};
    enum err rc = auth_new(&a, &c->users, eb);

    if (rc == ERR_OK)
        rc = node_load_users(n, c->users, c->to.credentials, eb);
    if (rc == ERR_OK && (c->to.tls_cert != NULL) != (n->tls != NULL))
        rc = err_set(eb, ERR_BAD_REQUEST, "turning TLS on or off needs a restart");
    if (rc == ERR_OK && (c->to.tls_key != NULL) != (c->to.tls_cert != NULL))
        rc = err_set(eb, ERR_BAD_REQUEST, "TLS needs both a certificate and its key");
    if (rc == ERR_OK && n->tls != NULL)
        rc = make_tls(c->to.tls_cert, c->to.tls_key, &c->tls, eb);
    return rc;
}

static enum err
reload_apply(struct node *n, struct change *c, struct paths *p, struct errbuf *eb)
{
    enum err rc = auth_replace_files(n->auth, c->users, eb); /* the last that can fail */

    if (rc != ERR_OK)
        return rc;
    if (n->tls != NULL) {
        tls_server_adopt(n->tls, &c->tls);
        n->tls_trouble[0] = '\0';
        free(p->cert);
        free(p->key);
        p->cert = xstrdup(c->to.tls_cert);
        p->key = xstrdup(c->to.tls_key);
        report_cert_end(n);
    }
    api_set_access_log(n->api, c->to.access_log);
    log_set_level(c->to.log_level);
    log_set_format(c->to.log_format);
    return ERR_OK;
}

struct reload_read {
    struct node *n;
    struct node_live to;
    enum err rc;
    struct errbuf eb;
};

static void
read_work(void *arg)
{
    struct reload_read *r = arg;

    r->rc = r->n->o->reload(&r->to, r->n->o->arg, &r->eb);
}

static void
reload_run(struct node *n, struct paths *p)
{
    struct reload_read r = {.n = n};
    struct change c = {.tls = NULL};
    enum err rc;

    if (n->o->reload == NULL)
        return;
    rc = rt_blocking(read_work, &r, DEADLINE_NEVER);
    if (rc != ERR_OK)
        return; /* the node ends */
    rc = r.rc;
    c.to = r.to;
    if (rc == ERR_OK)
        rc = prepare(n, &c, &r.eb);
    if (rc == ERR_OK)
        rc = reload_apply(n, &c, p, &r.eb);
    if (rc != ERR_OK)
        LOG(LOG_ERROR, "conf.not_reloaded", "nothing has changed",
            L_TEXT("why", r.eb.text));
    n->o->reloaded(rc == ERR_OK, n->o->arg);
    auth_free(&c.users);
    tls_context_free(&c.tls);
}

static void
on_hup(void *arg)
{
    struct node *n = arg;

    n->hup_asked = true;
    rt_cond_signal(&n->hup);
}

static bool
certificate_changed(const struct node *n)
{
    struct look l = {.tls = n->tls};

    return n->tls != NULL &&
           rt_blocking(reload_look_work, &l, DEADLINE_NEVER) == ERR_OK && l.stale;
}

/* One fiber for both, so that reloads never run concurrently. */
static void
reload_watch(void *arg)
{
    struct node *n = arg;
    struct paths p = {NULL, NULL};
    struct deadline tickets = deadline_in_ms(TICKETS_LIVE_MS);

    if (n->tls != NULL) {
        p = (struct paths){xstrdup(n->o->live.tls_cert), xstrdup(n->o->live.tls_key)};
        report_cert_end(n);
    }
    while (!rt_cancelled()) {
        if (!n->hup_asked)
            (void)!rt_cond_wait(&n->hup, n->tls != NULL ? deadline_in_ms(LOOK_EVERY_MS)
                                                        : DEADLINE_NEVER);
        if (n->hup_asked) {
            n->hup_asked = false;
            reload_run(n, &p);
        } else if (certificate_changed(n)) {
            reload_renew(n, &p, "the certificate has changed");
        } else if (n->tls != NULL && deadline_passed(tickets)) {
            reload_renew(n, &p, "keys of session tickets are new");
            tickets = deadline_in_ms(TICKETS_LIVE_MS);
        }
    }
    free(p.cert);
    free(p.key);
}

void
node_watch(struct node *n, struct rt_group *g)
{
    rt_cond_init(&n->hup);
    rt_on_signal(SIGHUP, on_hup, n);
    if (rt_group_start(g, reload_watch, n) != ERR_OK)
        LOG0(LOG_WARN, "node.watch", "no stack to watch for SIGHUP and certificates");
}
