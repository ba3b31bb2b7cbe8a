/* list_archive: the members of archives in a listing, behind the archive: "ARCHIVE/MEMBER". What is no archive in spite of its name,
 * or a damaged one, is listed as an object, with the members that were readable. */
#include <assert.h>
#include <string.h>

#include "api/ais/list.h"
#include "base/mem.h"
#include "base/num.h"
#include "shard/member.h"

/* It is no archive, or a damaged one, or it has just gone: no error of a listing. */
static enum err
archive_forgive(struct list_page *p, enum err rc, struct errbuf *eb)
{
    if (rc == ERR_OK || rc == ERR_BAD_REQUEST || rc == ERR_INCOMPLETE ||
        rc == ERR_TOO_LARGE || rc == ERR_NOT_FOUND)
        return ERR_OK;
    return ais_fault_from(p->q, rc, eb);
}

static enum err
archive_scan_open(struct list_page *p, struct span key, struct shard_match **match,
                  struct shard_scan **scan, struct errbuf *eb)
{
    struct shard_ask ask = {.bucket = p->q->bucket, .key = key};
    enum err rc = shard_match_new(SHARD_MATCH_PREFIX, SPAN(""), match, eb);

    return rc == ERR_OK ? shard_scan_open(p->q->api->shards, &ask, *match, scan, eb) : rc;
}

static void
archive_put_member(struct list_page *p, struct span key, const struct shard_member *m)
{
    struct listed e = {.size = m->size, .flags = ENTRY_MEMBER | ENTRY_PRESENT};
    size_t room = sizeof p->member - key.len - 1;

    assert(key.len <= OBJECT_KEY_MAX);
    memcpy(p->member, key.at, key.len);
    p->member[key.len] = '/';
    memcpy(p->member + key.len + 1, m->name.at, MIN(m->name.len, room));
    e.name = (struct span){p->member, key.len + 1 + MIN(m->name.len, room)};
    list_entry_put(p, &e);
}

static bool
page_is_full(const struct list_page *p)
{
    return p->count == p->r->size || p->out.full;
}

/* The members from number `from` on, until the page is full. */
static enum err
archive_put_members(struct list_page *p, struct span key, struct shard_scan *scan,
                    uint64_t from)
{
    struct errbuf eb = {{0}};
    struct shard_member m;
    uint64_t number = 0;
    bool end = false;
    enum err rc;

    p->resume = 0;
    for (;;) {
        rc = shard_scan_next(scan, &m, &end, &eb);
        if (rc != ERR_OK || end)
            return archive_forgive(p, rc, &eb);
        if (number++ < from)
            continue;
        if (page_is_full(p)) {
            p->resume = number; /* this one is the next */
            return ERR_OK;
        }
        archive_put_member(p, key, &m);
    }
}

enum err
list_archive_put(struct list_page *p, struct listed *e)
{
    struct shard_match *match = NULL;
    struct shard_scan *scan = NULL;
    struct errbuf eb = {{0}};
    bool here = (e->flags & ENTRY_PRESENT) != 0; /* nothing is fetched for a listing */
    enum err rc = ERR_OK;

    if (here && shard_format_of_name(e->name) != SHARD_NONE)
        rc = archive_scan_open(p, e->name, &match, &scan, &eb);
    rc = archive_forgive(p, rc, &eb);
    if (rc == ERR_OK) {
        e->flags |= scan != NULL ? ENTRY_ARCHIVE : 0;
        list_entry_put(p, e);
    }
    if (scan != NULL)
        rc = archive_put_members(p, e->name, scan, 0);
    shard_scan_close(&scan);
    shard_match_free(&match);
    return rc;
}

enum err
list_archive_continue(struct list_page *p, struct span key, uint64_t from)
{
    struct shard_match *match = NULL;
    struct shard_scan *scan = NULL;
    struct errbuf eb = {{0}};
    enum err rc = archive_forgive(p, archive_scan_open(p, key, &match, &scan, &eb), &eb);

    if (scan != NULL)
        rc = archive_put_members(p, key, scan, from);
    shard_scan_close(&scan);
    shard_match_free(&match);
    return rc;
}

enum err
list_archive_token(struct span text, uint64_t *resume, struct span *name)
{
    const char *colon = span_find(text, ':');

    if (colon == NULL)
        return ERR_BAD_REQUEST;
    *name = span_from(text, (size_t)(colon - text.at) + 1);
    text.len = (size_t)(colon - text.at);
    return name->len <= OBJECT_KEY_MAX ? num_u64(text, resume) : ERR_BAD_REQUEST;
}
