/* head: the field `forebay-peer` as text: "PROTOCOL FROM TO EPOCH FLAGS ID CLIENT", decimal but for the id. A later protocol
 * keeps the first word, so that both versions can be named. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/num.h"
#include "peer/peer.h"

#define NO_CLIENT "-"
#define FLAGS_ALL (PEER_LOOPBACK | PEER_TLS | PEER_TRUSTED)

size_t
peer_head_format(const struct peer_head *h, char out[PEER_HEAD_TEXT_MAX])
{
    int n = snprintf(out, PEER_HEAD_TEXT_MAX, "%u %u %u %llu %u %s %s", h->protocol,
                     h->from, h->to, (unsigned long long)h->epoch, h->flags, h->id,
                     h->client[0] != '\0' ? h->client : NO_CLIENT);

    assert(strlen(h->id) == 16);
    assert(n > 0 && n < (int)PEER_HEAD_TEXT_MAX);
    return (size_t)n;
}

/* The next word; empty at the end. */
static struct span
head_word(struct span *text)
{
    const char *space = span_find(*text, ' ');
    struct span w = {text->at, space != NULL ? (size_t)(space - text->at) : text->len};

    *text = span_from(*text, w.len + (space != NULL));
    return w;
}

static bool
peer_number(struct span *text, uint64_t most, uint64_t *out)
{
    return num_u64(head_word(text), out) == ERR_OK && *out <= most;
}

static bool
is_request_id(struct span s)
{
    if (s.len != 16)
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (strchr("0123456789abcdef", s.at[i]) == NULL || s.at[i] == '\0')
            return false;
    return true;
}

static bool
is_client(struct span s)
{
    if (s.len == 0 || s.len >= PEER_ADDRESS_MAX)
        return false;
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] <= ' ' || s.at[i] >= 127)
            return false;
    return true;
}

enum err
peer_head_parse(struct span text, struct peer_head *out, struct errbuf *eb)
{
    uint64_t protocol, from, to, epoch, flags;
    struct span id, client;

    *out = (struct peer_head){0};
    if (!peer_number(&text, UINT32_MAX, &protocol))
        return err_set(eb, ERR_BAD_REQUEST,
                       "this port serves other nodes of the cluster only");
    if (protocol != PEER_PROTOCOL)
        return err_set(eb, ERR_NOT_IMPLEMENTED,
                       "the request has version %llu of the protocol between nodes, and "
                       "this node has version %u; upgrade the older one",
                       (unsigned long long)protocol, PEER_PROTOCOL);
    if (!peer_number(&text, UINT32_MAX, &from) || !peer_number(&text, UINT32_MAX, &to) ||
        !peer_number(&text, UINT64_MAX, &epoch) ||
        !peer_number(&text, FLAGS_ALL, &flags) || from == 0 || to == 0 || epoch == 0)
        return err_set(eb, ERR_BAD_REQUEST, "bad numbers in " PEER_FIELD);
    id = head_word(&text);
    client = head_word(&text);
    if (!is_request_id(id) || !is_client(client) || text.len > 0)
        return err_set(eb, ERR_BAD_REQUEST,
                       "bad request id or client address in " PEER_FIELD);
    *out = (struct peer_head){.protocol = PEER_PROTOCOL,
                              .from = (uint32_t)from,
                              .to = (uint32_t)to,
                              .epoch = epoch,
                              .flags = (unsigned)flags};
    memcpy(out->id, id.at, id.len);
    if (!span_is(client, NO_CLIENT))
        memcpy(out->client, client.at, client.len);
    return ERR_OK;
}
