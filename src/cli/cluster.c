/* cluster: the operator's side of a cluster. `key` needs no server; the other verbs ask one of the nodes. */
#include <openssl/rand.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cluster.h"
#include "meta/cluster_key.h"

static const char *const key_examples[] = {"forebay cluster key > cluster.key", NULL};
static const struct flag key_flags[] = {{NULL, 0, NULL, NULL, false}};
static const struct verb key_verb = {
    .name = "cluster key",
    .summary = "make the key of a new cluster",
    .arguments = "",
    .examples = key_examples,
    .flags = key_flags,
    .more = "Each node gets the same file. It protects the connections between nodes and "
            "the secrets in etcd: keep a copy of it.\n"
            "Where the output is a file, its mode becomes 0600.",
};

static enum exit_code
cluster_key_run(const struct args *a)
{
    struct cluster_key k;
    char text[CLUSTER_KEY_TEXT];
    struct stat st;

    (void)a;
    if (fstat(STDOUT_FILENO, &st) == 0 && S_ISREG(st.st_mode) &&
        fchmod(STDOUT_FILENO, 0600) != 0) {
        struct errbuf eb = {{0}};
        enum err rc = err_set(&eb, ERR_IO, "the mode of the file cannot be set to 0600");

        return cli_fail(rc, &eb);
    }
    if (RAND_bytes(k.bytes, sizeof k.bytes) != 1) {
        struct errbuf eb = {{0}};
        enum err rc = err_set(&eb, ERR_INTERNAL, "the machine gives no random numbers");

        return cli_fail(rc, &eb);
    }
    cluster_key_text(&k, text);
    fputs(text, stdout);
    cluster_key_wipe(&k);
    return EXIT_OK_;
}
static const struct cli_verb cli_cluster_key = {&key_verb, cluster_key_run};

static const struct verb group = {
    .name = "cluster",
    .summary = "the nodes of a cluster, looked at and changed; its key"};
static const struct cli_verb *const verbs[] = {&cli_cluster_key,
                                               &cli_cluster_show,
                                               &cli_cluster_map,
                                               &cli_cluster_wait,
                                               &cli_cluster_maintenance,
                                               &cli_cluster_remove,
                                               NULL};
const struct cli_group cli_cluster_group = {&group, verbs};
