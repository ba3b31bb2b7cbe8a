#include "cli/serve_cluster.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"

#define HOST_MAX 256u

enum err
serve_split_address(const char *option, const char *text, char **addr, uint16_t *port,
                    struct errbuf *eb)
{
    const char *colon = strrchr(text, ':');
    uint64_t number = 0;

    *port = 0;
    if (strncmp(text, "unix:", 5) == 0) {
        *addr = xstrdup(text);
        return ERR_OK;
    }
    if (num_u64(span_of(colon != NULL ? colon + 1 : text), &number) != ERR_OK ||
        number > 65535)
        return err_set(eb, ERR_BAD_REQUEST,
                       "%s \"%s\": expected ADDR:PORT, a port is 0 to 65535", option,
                       text);
    *port = (uint16_t)number;
    if (colon == NULL || colon == text)
        *addr = xstrdup("127.0.0.1");
    else if (text[0] == '[' && colon[-1] == ']')
        *addr = xmemdup0(text + 1, (size_t)(colon - text) - 2);
    else
        *addr = xmemdup0(text, (size_t)(colon - text));
    return ERR_OK;
}

/* A name for a node that was given none: two nodes of one machine have different ports. */
static char *
default_name(uint16_t port)
{
    char host[HOST_MAX];

    if (gethostname(host, sizeof host) != 0)
        return xasprintf("node-%u", port);
    host[sizeof host - 1] = '\0';
    host[strcspn(host, ".")] = '\0';
    return xasprintf("%.48s-%u", host[0] != '\0' ? host : "node", port);
}

static const char *
text_or_none(const struct conf *c, enum conf_option id)
{
    return conf_text(c, id)[0] != '\0' ? conf_text(c, id) : NULL;
}

static char *
joined_list(const char *const *list, size_t count)
{
    struct buf text;
    char *out;

    buf_init(&text, 16 * 1024);
    for (size_t i = 0; i < count; i++)
        buf_printf(&text, "%s%s", i > 0 ? "," : "", list[i]);
    out = xmemdup0(text.at != NULL ? text.at : "", text.len);
    buf_fini(&text);
    return out;
}

enum err
serve_cluster_take(const struct conf *c, struct node_options *o,
                   struct serve_cluster *out, struct errbuf *eb)
{
    struct node_cluster_options *n = &o->cluster;
    const char *peer = text_or_none(c, OPT_CLUSTER_PEER_LISTEN);
    size_t count = 0;
    const char *const *etcd = conf_list(c, OPT_CLUSTER_ETCD, &count);

    *n = (struct node_cluster_options){
        .name = text_or_none(c, OPT_CLUSTER_NAME),
        .key_file = text_or_none(c, OPT_CLUSTER_KEY_FILE),
        .node = text_or_none(c, OPT_NODE_NAME),
        .domain = text_or_none(c, OPT_NODE_DOMAIN),
        .weight = (uint32_t)conf_u64(c, OPT_NODE_WEIGHT),
        .etcd_user = text_or_none(c, OPT_CLUSTER_ETCD_USER),
        .etcd_password_file = text_or_none(c, OPT_CLUSTER_ETCD_PASSWORD_FILE),
        .etcd_ca_file = text_or_none(c, OPT_CLUSTER_ETCD_CA_FILE),
    };
    if (count == 0 && n->name == NULL && n->key_file == NULL)
        return ERR_OK;
    if (count == 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "--etcd URL[,URL...] is missing: --etcd, --cluster and "
                       "--cluster-key go together");
    out->etcd = joined_list(etcd, count);
    out->node_default = default_name(o->port);
    n->etcd = out->etcd;
    n->node_default = out->node_default;
    if (peer == NULL)
        return ERR_OK;
    n->peer_addr = NULL;
    if (strncmp(peer, "unix:", 5) == 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "--peer-listen \"%s\": other nodes need an address and a port",
                       peer);
    if (serve_split_address("--peer-listen", peer, &out->peer_addr, &n->peer_port, eb) !=
        ERR_OK)
        return ERR_BAD_REQUEST;
    n->peer_addr = out->peer_addr;
    return n->peer_port > 0
               ? ERR_OK
               : err_set(eb, ERR_BAD_REQUEST,
                         "--peer-listen \"%s\": other nodes need a port that "
                         "they know, not 0",
                         peer);
}

void
serve_cluster_fini(struct serve_cluster *s)
{
    free(s->etcd);
    free(s->peer_addr);
    free(s->node_default);
}
