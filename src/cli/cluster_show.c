/* cluster show, map, wait: what the nodes of a cluster are up to, as the server that is asked sees it. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/num.h"
#include "cli/admin.h"
#include "cli/cluster.h"
#include "rt/fiber.h"
#include "rt/time.h"
#include "wire/json_get.h"

#define ANSWER_MAX MIB(4)
#define AGAIN_MS   500
#define WAIT_MS    60000

/* ---- asking ---- */

enum err
cluster_ask(struct session *s, struct arena *a, json_t **doc, struct span *answer)
{
    struct s3_request r = {.method = "GET", .path = SPAN("/_/cluster")};
    struct span text = {"", 0};
    enum err rc = admin_call(s, &r, a, &text);

    *doc = NULL;
    if (answer != NULL)
        *answer = text;
    return rc == ERR_OK ? admin_list(s, text, "nodes", doc) : rc;
}

void
cluster_print_problems(const json_t *doc)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(doc, "problems"), i, one) printf(
        "\n%s\n  -> %s\n", json_get_text(one, "what", ""), json_get_text(one, "do", ""));
    json_array_foreach(json_object_get(doc, "notes"), i, one)
        printf("\nnote: %s\n", json_string_value(one));
}

/* ---- show ---- */

static const struct flag show_flags[] = {SESSION_FLAGS, {NULL, 0, NULL, NULL, false}};
static const char *const show_examples[] = {
    "forebay cluster show",
    "forebay cluster show --endpoint-url http://node2:9000 -o json", NULL};
static const struct verb show_verb = {
    .name = "cluster show",
    .summary = "the nodes of the cluster, what is wrong, and what to type",
    .arguments = "",
    .examples = show_examples,
    .flags = show_flags,
    .more = "BEAT: how long ago the last heartbeat was seen; SKEW: of that node's clock; "
            "EPOCH: of the map that it has adopted. All as the\n"
            "server that is asked sees it (*).",
};

static void
print_cluster_node(const json_t *n)
{
    char beat[32] = "-", skew[32] = "-", epoch[32] = "-";
    bool self = json_is_true(json_object_get(n, "self"));

    if (json_object_get(n, "epoch") != NULL) {
        snprintf(epoch, sizeof epoch, "%llu",
                 (unsigned long long)json_get_u64(n, "epoch"));
        snprintf(beat, sizeof beat, "%.1f s",
                 (double)json_get_u64(n, "beat_age_ms") / 1000);
        snprintf(skew, sizeof skew, "%+lld ms",
                 (long long)json_integer_value(json_object_get(n, "skew_ms")));
    }
    printf("%-4llu %-20s %-12s %6.1f%% %8s %8s %7s %6zu  %s%s%s%s\n",
           (unsigned long long)json_get_u64(n, "number"), json_get_text(n, "name", ""),
           json_get_text(n, "state", ""),
           json_number_value(json_object_get(n, "keys_percent")), self ? "*" : beat,
           self ? "*" : skew, epoch, json_array_size(json_object_get(n, "disks")),
           json_get_text(n, "address", ""),
           json_get_text(n, "domain", "")[0] != '\0' ? "  " : "",
           json_get_text(n, "domain", ""), self ? "  (asked)" : "");
}

static void
print_cluster(const json_t *doc)
{
    json_t *n;
    size_t i;

    printf("cluster %s  epoch %llu  lease %.1f s\n\n", json_get_text(doc, "cluster", ""),
           (unsigned long long)json_get_u64(doc, "epoch"),
           (double)json_get_u64(doc, "lease_ms") / 1000);
    printf("%-4s %-20s %-12s %7s %8s %8s %7s %6s  %s\n", "NO", "NODE", "STATE", "KEYS",
           "BEAT", "SKEW", "EPOCH", "DISKS", "ADDRESS");
    json_array_foreach(json_object_get(doc, "nodes"), i, n) print_cluster_node(n);
    cluster_print_problems(doc);
}

static enum exit_code
cluster_show(struct session *s)
{
    struct arena *a = arena_new(KIB(64), ANSWER_MAX);
    struct span answer;
    json_t *doc;
    enum err rc = cluster_ask(s, a, &doc, &answer);

    if (rc == ERR_OK && !admin_print(s, answer, "nodes", "", "name"))
        print_cluster(doc);
    json_decref(doc);
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
cluster_show_run(const struct args *a)
{
    return session_run(a, cluster_show, NULL);
}
const struct cli_verb cli_cluster_show = {&show_verb, cluster_show_run};

/* ---- map ---- */

static const char *const map_examples[] = {"forebay cluster map", NULL};
static const struct verb map_verb = {
    .name = "cluster map",
    .summary = "which nodes hold keys, and where they are reached",
    .arguments = "",
    .examples = map_examples,
    .flags = show_flags,
};

static void
print_cluster_map(const json_t *doc)
{
    json_t *n, *d;
    size_t i, k;

    printf("cluster %s  id %s  epoch %llu\n", json_get_text(doc, "cluster", ""),
           json_get_text(doc, "id", ""), (unsigned long long)json_get_u64(doc, "epoch"));
    json_array_foreach(json_object_get(doc, "nodes"), i, n)
    {
        printf("\n%llu %s  %s since epoch %llu  weight %llu, %.1f %% of the keys\n",
               (unsigned long long)json_get_u64(n, "number"),
               json_get_text(n, "name", ""), json_get_text(n, "state", ""),
               (unsigned long long)json_get_u64(n, "since_epoch"),
               (unsigned long long)json_get_u64(n, "weight"),
               json_number_value(json_object_get(n, "keys_percent")));
        printf("  clients %s  nodes %s  domain %s\n", json_get_text(n, "address", "-"),
               json_get_text(n, "peer_address", "-"),
               json_get_text(n, "domain", "(its own)"));
        json_array_foreach(json_object_get(n, "disks"), k, d)
            printf("  disk %s\n", json_string_value(d));
    }
}

static enum exit_code
cluster_show_map(struct session *s)
{
    struct arena *a = arena_new(KIB(64), ANSWER_MAX);
    struct span answer;
    json_t *doc;
    enum err rc = cluster_ask(s, a, &doc, &answer);

    if (rc == ERR_OK && !admin_print(s, answer, "nodes", "", "name"))
        print_cluster_map(doc);
    json_decref(doc);
    arena_free(&a);
    return rc == ERR_OK ? EXIT_OK_ : session_fail(s, rc);
}

static enum exit_code
cluster_map_run(const struct args *a)
{
    return session_run(a, cluster_show_map, NULL);
}
const struct cli_verb cli_cluster_map = {&map_verb, cluster_map_run};

/* ---- wait ---- */

static const struct flag wait_flags[] = {
    {"timeout", 0, "TIME", "how long at most; 60s", false},
    {"nodes", 'n', "N", "and there are at least so many nodes", false},
    SESSION_FLAGS,
    {NULL, 0, NULL, NULL, false}};
static const char *const wait_examples[] = {
    "forebay cluster wait", "forebay cluster wait --nodes 3 --timeout 2m", NULL};
static const struct verb wait_verb = {
    .name = "cluster wait",
    .summary = "wait until every node is up",
    .arguments = "",
    .examples = wait_examples,
    .flags = wait_flags,
    .more = "Exit code 0 as soon as every node is up and nothing is wrong; else 1, with "
            "the reasons.",
};

static uint64_t
nodes_up(const json_t *doc)
{
    uint64_t up = 0;
    json_t *n;
    size_t i;

    json_array_foreach(json_object_get(doc, "nodes"), i, n) up +=
        strcmp(json_get_text(n, "state", ""), "up") == 0;
    return up;
}

/* Until all is well: EXIT_OK_. What does not answer yet is waited for, too. */
static enum exit_code
wait_whole(struct session *s, uint64_t nodes, uint64_t timeout_ms)
{
    struct deadline by = deadline_in_ms(timeout_ms);

    for (;;) {
        struct arena *a = arena_new(KIB(64), ANSWER_MAX);
        struct span answer = {"", 0};
        json_t *doc;
        enum err rc = cluster_ask(s, a, &doc, &answer);
        uint64_t up = rc == ERR_OK ? nodes_up(doc) : 0;
        bool whole =
            rc == ERR_OK && json_is_true(json_object_get(doc, "whole")) && up >= nodes;
        bool over = whole || deadline_passed(by) || rc == ERR_NOT_FOUND ||
                    rc == ERR_DENIED || rc == ERR_CANCELLED;

        if (over && rc == ERR_OK && s->output == OUTPUT_JSON)
            printf("%.*s\n", SPAN_ARG(answer));
        else if (over && rc == ERR_OK && !whole) {
            printf("%llu of %zu nodes up%s\n", (unsigned long long)up,
                   MAX((size_t)nodes, json_array_size(json_object_get(doc, "nodes"))),
                   up < nodes ? ": too few" : "");
            cluster_print_problems(doc);
        }
        json_decref(doc);
        arena_free(&a);
        if (over && rc != ERR_OK)
            return session_fail(s, rc);
        if (over)
            return whole ? EXIT_OK_ : EXIT_DIFFERS;
        if (rt_sleep_ms(AGAIN_MS) != ERR_OK)
            return EXIT_INTERRUPTED;
    }
}

static enum exit_code
cluster_wait(struct session *s)
{
    const char *timeout = args_value(s->args, "timeout"),
               *nodes = args_value(s->args, "nodes");
    uint64_t timeout_ms = WAIT_MS, least = 0;

    if (timeout != NULL && num_duration_ms(span_of(timeout), &timeout_ms, NULL) != ERR_OK)
        return session_fail(s, err_set(&s->eb, ERR_BAD_REQUEST,
                                       "--timeout \"%s\": expected a time, for example "
                                       "60s",
                                       timeout));
    if (nodes != NULL && num_u64(span_of(nodes), &least) != ERR_OK)
        return session_fail(s, err_set(&s->eb, ERR_BAD_REQUEST,
                                       "--nodes \"%s\": expected a number", nodes));
    return wait_whole(s, least, timeout_ms);
}

static enum exit_code
cluster_wait_run(const struct args *a)
{
    return session_run(a, cluster_wait, NULL);
}
const struct cli_verb cli_cluster_wait = {&wait_verb, cluster_wait_run};
