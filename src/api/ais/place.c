/* place: which place of the AIS API a path names. */
#include "api/ais/ais.h"
#include "base/mem.h"
#include "base/uri.h"
#include "base/utf8.h"

static const char *const paths[AIS_PLACES_] = {[AIS_NOWHERE] = "",
#define X(id, path) [AIS_##id] = (path),
                                               AIS_PLACE_TABLE(X)
#undef X
};

const char *
ais_place_path(enum ais_place place)
{
    return paths[place];
}

/* "//v1/x" is "/v1/x". */
static struct span
without_slashes(struct span path)
{
    while (path.len > 0 && path.at[0] == '/')
        path = span_from(path, 1);
    return path;
}

bool
ais_is_path(struct span path)
{
    path = without_slashes(path);
    return span_is(path, "v1") || span_starts(path, SPAN("v1/"));
}

/* The next element, and what follows it. */
static struct span
take_element(struct span *path)
{
    struct span rest = without_slashes(*path);
    const char *slash = span_find(rest, '/');
    struct span element = {rest.at, slash != NULL ? (size_t)(slash - rest.at) : rest.len};

    *path = span_from(rest, element.len);
    return element;
}

static enum err
decode_element(struct request *q, struct span raw, struct span *out)
{
    char *room = arena_try(q->arena, raw.len + 1);
    int len = room != NULL ? uri_decode(raw, room) : -1;

    if (len < 0)
        return ais_fault(
            q, 400, NULL,
            "invalid URL path \"%.*s\": a \"%%\" is not followed by two hex digits",
            (int)MIN(raw.len, 100u), raw.at);
    *out = (struct span){room, (size_t)len};
    return utf8_valid(*out) ? ERR_OK
                            : ais_fault(q, 400, NULL, "invalid URL path: not UTF-8");
}

/* The first element behind the version, and what is below it. */
static enum ais_place
place_below(struct span head, struct span *path)
{
    struct span at = *path, second = take_element(&at);

    if (span_is(head, "daemon") || span_is(head, "reverse")) {
        bool reverse = span_is(head, "reverse");

        if (reverse && !span_is(second, "daemon"))
            return AIS_NOWHERE;
        if (reverse)
            second = take_element(&at);
        *path = at;
        if (second.len == 0)
            return reverse ? AIS_REVERSE : AIS_DAEMON;
        if (span_is(second, "set-config"))
            return reverse ? AIS_REVERSE_SET : AIS_DAEMON_SET;
        if (span_is(second, "mountpaths"))
            return reverse ? AIS_REVERSE_MOUNTPATHS : AIS_DAEMON_MOUNTPATHS;
        return AIS_NOWHERE;
    }
    if (span_is(head, "cluster")) {
        if (second.len == 0)
            return AIS_CLUSTER;
        if (!span_is(second, "set-config"))
            return AIS_CLUSTER_OTHER;
        *path = at;
        return AIS_CLUSTER_SET;
    }
    if (span_is(head, "ml")) {
        *path = at;
        return span_is(second, "moss") ? AIS_BATCH : AIS_NOWHERE;
    }
    if (span_is(head, "download") || span_is(head, "sort")) {
        bool sort = span_is(head, "sort");

        if (second.len == 0)
            return sort ? AIS_SORT : AIS_DOWNLOAD;
        *path = at;
        if (span_is(second, "abort"))
            return sort ? AIS_SORT_ABORT : AIS_DOWNLOAD_ABORT;
        return !sort && span_is(second, "remove") ? AIS_DOWNLOAD_REMOVE : AIS_NOWHERE;
    }
    if (span_is(head, "health"))
        return AIS_HEALTH;
    if (span_is(head, "etl"))
        return AIS_ETL;
    return span_is(head, "tokens") ? AIS_TOKENS : AIS_NOWHERE;
}

/* Below `buckets` and `objects`: the bucket, and the name of an object or a prefix. */
static enum err
place_take_names(struct request *q, struct span path, bool objects)
{
    struct ais_request *r = q->ais;
    struct span bucket = take_element(&path);
    enum err rc;

    r->place = objects ? AIS_OBJECTS : AIS_BUCKETS;
    if (bucket.len == 0)
        return ERR_OK;
    rc = decode_element(q, bucket, &r->bucket.name);
    if (rc == ERR_OK && path.len > 1) /* behind the slash that ends the bucket */
        rc = decode_element(q, span_from(path, 1), &r->object);
    if (!objects)
        r->place = AIS_BUCKET;
    else if (r->object.len > 0)
        r->place = AIS_OBJECT;
    return rc;
}

enum err
ais_find_place(struct request *q)
{
    struct span path = q->http->head->path, head;

    (void)take_element(&path); /* "v1" */
    head = take_element(&path);
    if (span_is(head, "buckets") || span_is(head, "objects"))
        return place_take_names(q, path, span_is(head, "objects"));
    q->ais->place = place_below(head, &path);
    if (q->ais->place == AIS_NOWHERE)
        return ais_fault(
            q, 404, NULL,
            "invalid URL path \"%.*s\": there is no such place in the AIS API",
            (int)MIN(q->http->head->path.len, 100u), q->http->head->path.at);
    return decode_element(q, without_slashes(path), &q->ais->rest);
}
