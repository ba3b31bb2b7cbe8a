/* cluster maintenance, remove: what an operator changes of the map of nodes. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/admin.h"
#include "cli/cluster.h"
#include "wire/json_get.h"

#define ANSWER_MAX MIB(4)

static enum err
change_send(struct session *s, const char *action, const char *flag, bool value)
{
    struct arena *a = arena_new(KIB(64), ANSWER_MAX);
    json_t *doc =
        json_pack("{s:s,s:s,s:b}", "action", action, "node", s->args->at[0], flag, value);
    char *text = doc != NULL ? json_dumps(doc, JSON_COMPACT) : NULL;
    struct s3_request r = {.method = "POST", .path = SPAN("/_/cluster")};
    struct span answer = {"", 0};
    enum err rc;

    if (text == NULL)
        rc = err_set(&s->eb, ERR_BAD_REQUEST, "\"%s\": a name of a node is UTF-8",
                     s->args->at[0]);
    else {
        r.body = span_of(text);
        rc = admin_call(s, &r, a, &answer);
    }
    if (rc == ERR_OK && s->json)
        printf("%.*s\n", SPAN_ARG(answer));
    free(text);
    json_decref(doc);
    arena_free(&a);
    return rc;
}

/* ---- maintenance ---- */

static const struct flag maintenance_flags[] = {
    {"off", 0, NULL, "end it: the node becomes up as soon as it runs", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const maintenance_examples[] = {
    "forebay cluster maintenance node2", "forebay cluster maintenance node2 --off", NULL};
static const struct verb maintenance_verb = {
    .name = "cluster maintenance",
    .summary = "take a node out of service, and back",
    .arguments = "NODE",
    .least = 1,
    .most = 1,
    .examples = maintenance_examples,
    .flags = maintenance_flags,
    .more =
        "A node in maintenance answers no request for its keys, also after a restart. "
        "Its objects of native buckets are not\n"
        "available meanwhile; cached ones are served by the other nodes.",
};

static enum exit_code
cluster_maintenance(struct session *s)
{
    bool off = args_has(s->args, "off");
    enum err rc = change_send(s, "maintenance", "on", !off);

    if (rc == ERR_OK && !s->quiet && !s->json)
        printf("node %s is %s maintenance\n", s->args->at[0], off ? "out of" : "in");
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
cluster_maintenance_run(const struct args *a)
{
    return session_run(a, cluster_maintenance, NULL);
}
const struct cli_verb cli_cluster_maintenance = {&maintenance_verb,
                                                 cluster_maintenance_run};

/* ---- remove ---- */

static const struct flag remove_flags[] = {
    {"lost", 0, NULL, "its objects of native buckets are lost for ever", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const remove_examples[] = {"forebay cluster remove node2 --lost",
                                              NULL};
static const struct verb remove_verb = {
    .name = "cluster remove",
    .summary = "remove a stopped node from the cluster for ever",
    .arguments = "NODE",
    .least = 1,
    .most = 1,
    .examples = remove_examples,
    .flags = remove_flags,
    .more =
        "Its name never comes back. A node that holds keys is removed with --lost only: "
        "objects have one replica, so what it\n"
        "holds is answered with 404 afterwards.",
};

static enum exit_code
cluster_remove(struct session *s)
{
    enum err rc = change_send(s, "remove", "lost", args_has(s->args, "lost"));

    if (rc == ERR_OK && !s->quiet && !s->json)
        printf("node %s is removed\n", s->args->at[0]);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
cluster_remove_run(const struct args *a)
{
    return session_run(a, cluster_remove, NULL);
}
const struct cli_verb cli_cluster_remove = {&remove_verb, cluster_remove_run};
