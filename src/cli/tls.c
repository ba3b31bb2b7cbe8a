/* tls: makes a certificate that a server can show and a client can trust. */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/num.h"
#include "cli/cli.h"

#define DAYS_MAX  3650
#define NAMES_MAX 4096

static const struct flag flags[] = {
    {"name", 'n', "NAME|ADDRESS",
     "a name or address clients use; localhost, 127.0.0.1 and ::1 unless given", true},
    {"days", 0, "N", "how long it is valid; 365", false},
    {"cert", 0, "FILE", "where the certificate goes; tls.crt", false},
    {"key", 0, "FILE", "where the private key goes, mode 0600; tls.key", false},
    {"force", 0, NULL, "replace files that are there", false},
    {NULL, 0, NULL, NULL, false},
};
static const char *const examples[] = {
    "forebay tls selfsign",
    "forebay tls selfsign -n store.example.org -n 10.0.0.5",
    "forebay serve ./data --listen 0.0.0.0:9000 --tls-cert tls.crt --tls-key tls.key",
    "aws --endpoint-url https://10.0.0.5:9000 --ca-bundle tls.crt s3 ls",
    NULL,
};
static const struct verb verb = {
    .name = "tls",
    .summary = "make a certificate for a server",
    .arguments = "selfsign",
    .least = 1,
    .most = 1,
    .examples = examples,
    .flags = flags,
    .more =
        "The certificate is no authority (CA:FALSE): it can sign nothing else. Clients "
        "trust it by --ca-bundle FILE,\n"
        "AWS_CA_BUNDLE, or the system's store.",
};

/* "DNS:localhost,IP:127.0.0.1". Names are letters, digits, "-", "." and a "*" at the front. */
static enum err
tls_add_name(struct buf *names, const char *name, struct errbuf *eb)
{
    unsigned char address[16];
    bool is_address =
        inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
    size_t len = strlen(name);
    bool ok = len > 0 && len <= 253;

    for (size_t i = 0; i < len && ok && !is_address; i++) {
        char c = name[i];

        ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '.' || (c == '*' && i == 0 && name[1] == '.');
    }
    if (!ok)
        return err_set(
            eb, ERR_BAD_REQUEST,
            "\"%s\" is no name a certificate can carry: letters, digits, - and "
            ". up to 253, or an address",
            name);
    buf_printf(names, "%s%s:%s", names->len > 0 ? "," : "", is_address ? "IP" : "DNS",
               name);
    return names->full ? err_set(eb, ERR_TOO_LARGE,
                                 "the names are over %u bytes together", NAMES_MAX)
                       : ERR_OK;
}

static enum err
all_names(const struct args *a, struct buf *names, struct errbuf *eb)
{
    static const char *const local[] = {"localhost", "127.0.0.1", "::1"};
    const char *name;
    enum err rc = ERR_OK;

    for (size_t i = 0; rc == ERR_OK && (name = args_nth(a, "name", i)) != NULL; i++)
        rc = tls_add_name(names, name, eb);
    for (size_t i = 0; i < ARRAY_LEN(local) && rc == ERR_OK && !args_has(a, "name"); i++)
        rc = tls_add_name(names, local[i], eb);
    buf_putc(names, '\0');
    return rc;
}

static bool
extend(X509 *cert, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509_EXTENSION *e;
    bool ok;

    X509V3_set_ctx(&ctx, cert, cert, NULL, NULL, 0);
    e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ok = e != NULL && X509_add_ext(cert, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

static bool
tls_fill(X509 *cert, EVP_PKEY *key, const char *names, long days)
{
    unsigned char serial[16];
    BIGNUM *number;
    X509_NAME *subject = X509_get_subject_name(cert);
    bool ok = RAND_bytes(serial, sizeof serial) == 1;

    serial[0] &= 0x7f;
    number = BN_bin2bn(serial, sizeof serial, NULL);
    ok = ok && number != NULL &&
         BN_to_ASN1_INTEGER(number, X509_get_serialNumber(cert)) != NULL;
    BN_free(number);
    return ok && X509_set_version(cert, X509_VERSION_3) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(cert), -300) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(cert), days * 86400) != NULL &&
           X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC,
                                      (const unsigned char *)"Forebay", -1, -1, 0) == 1 &&
           X509_set_issuer_name(cert, subject) == 1 && X509_set_pubkey(cert, key) == 1 &&
           extend(cert, NID_basic_constraints, "critical,CA:FALSE") &&
           extend(cert, NID_key_usage, "critical,digitalSignature") &&
           extend(cert, NID_ext_key_usage, "serverAuth") &&
           extend(cert, NID_subject_key_identifier, "hash") &&
           extend(cert, NID_authority_key_identifier, "keyid:always") &&
           extend(cert, NID_subject_alt_name, names) &&
           X509_sign(cert, key, EVP_sha256()) > 0;
}

static FILE *
create(const char *path, mode_t mask, bool force, struct errbuf *eb)
{
    mode_t before;
    FILE *f;

    if (force)
        (void)unlink(path); /* so that the mode is ours */
    before = umask(mask);
    f = fopen(path, "wxe");
    (void)umask(before);
    if (f == NULL)
        err_errno(eb, errno == EEXIST ? ERR_EXISTS : ERR_IO, errno, "%s%s", path,
                  errno == EEXIST ? " is there already; --force replaces it" : "");
    return f;
}

static enum err
write_pair(const char *cert_path, const char *key_path, bool force, X509 *cert,
           EVP_PKEY *key, struct errbuf *eb)
{
    FILE *f = create(key_path, 077, force, eb);
    bool ok;

    if (f == NULL)
        return ERR_IO;
    ok = PEM_write_PKCS8PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) == 1;
    ok = fclose(f) == 0 && ok;
    if (!ok)
        return err_set(eb, ERR_IO, "%s cannot be written", key_path);
    f = create(cert_path, 022, force, eb);
    if (f == NULL)
        return ERR_IO;
    ok = PEM_write_X509(f, cert) == 1;
    ok = fclose(f) == 0 && ok;
    return ok ? ERR_OK : err_set(eb, ERR_IO, "%s cannot be written", cert_path);
}

static enum err
selfsign(const struct args *a, const char *names, struct errbuf *eb)
{
    const char *cert_path = args_value(a, "cert"), *key_path = args_value(a, "key");
    const char *given = args_value(a, "days");
    EVP_PKEY *key;
    X509 *cert;
    uint64_t days = 365;
    enum err rc;

    if (given != NULL &&
        (num_u64(span_of(given), &days) != ERR_OK || days == 0 || days > DAYS_MAX))
        return err_set(eb, ERR_BAD_REQUEST, "--days \"%s\": expected 1 to %u", given,
                       DAYS_MAX);
    key = EVP_EC_gen("P-256");
    cert = X509_new();
    if (key == NULL || cert == NULL || !tls_fill(cert, key, names, (long)days))
        rc =
            err_set(eb, ERR_INTERNAL, "the certificate cannot be made for \"%s\"", names);
    else
        rc = write_pair(cert_path != NULL ? cert_path : "tls.crt",
                        key_path != NULL ? key_path : "tls.key", args_has(a, "force"),
                        cert, key, eb);
    X509_free(cert);
    EVP_PKEY_free(key);
    return rc;
}

static enum exit_code
tls_run(const struct args *a)
{
    struct errbuf eb = {{0}};
    struct buf names;
    enum err rc;

    if (strcmp(a->at[0], "selfsign") != 0) {
        err_set(&eb, ERR_BAD_REQUEST, "tls \"%s\": expected selfsign", a->at[0]);
        return cli_usage(&eb, &verb);
    }
    buf_init(&names, NAMES_MAX);
    rc = all_names(a, &names, &eb);
    if (rc == ERR_OK)
        rc = selfsign(a, names.at, &eb);
    if (rc == ERR_OK)
        printf("%s and %s, for %s\n",
               args_value(a, "cert") != NULL ? args_value(a, "cert") : "tls.crt",
               args_value(a, "key") != NULL ? args_value(a, "key") : "tls.key", names.at);
    buf_fini(&names);
    return rc == ERR_OK            ? EXIT_OK_
           : rc == ERR_BAD_REQUEST ? cli_usage(&eb, &verb)
                                   : cli_fail(rc, &eb);
}

const struct cli_verb cli_tls = {&verb, tls_run};
