/* certs: certificates made at test time, as PEM files in a directory of their own. */
#pragma once
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct certs {
    char dir[64];
    EVP_PKEY *ca_key;
    X509 *ca;
    long serial;
};
struct cert_wish {
    const char *file;  /* FILE.crt and FILE.key */
    const char *names; /* "DNS:localhost,IP:127.0.0.1" */
    bool expired;
    bool self_signed;
};

static inline const char *
certs_path(const struct certs *c, const char *name, const char *suffix, char out[128])
{
    snprintf(out, 128, "%s/%s.%s", c->dir, name, suffix);
    return out;
}

static inline void
certs_write(const struct certs *c, const char *name, X509 *cert, EVP_PKEY *key)
{
    char path[128];
    FILE *f = fopen(certs_path(c, name, "crt", path), "w");

    if (f == NULL || PEM_write_X509(f, cert) != 1 || fclose(f) != 0)
        abort();
    f = fopen(certs_path(c, name, "key", path), "w");
    if (f == NULL || PEM_write_PrivateKey(f, key, NULL, NULL, 0, NULL, NULL) != 1 ||
        fclose(f) != 0 || chmod(path, 0600) != 0)
        abort();
}

static inline void
certs_extend(X509 *cert, int nid, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, nid, value);

    if (e == NULL || X509_add_ext(cert, e, -1) != 1)
        abort();
    X509_EXTENSION_free(e);
}

/* With fixed dates: the simulator's clock is not the machine's. */
static inline X509 *
certs_make(struct certs *c, const char *subject, EVP_PKEY *key, bool expired)
{
    X509 *cert = X509_new();
    X509_NAME *name = X509_get_subject_name(cert);

    X509_set_version(cert, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(cert), ++c->serial);
    ASN1_TIME_set_string(X509_getm_notBefore(cert), "20200101000000Z");
    ASN1_TIME_set_string(X509_getm_notAfter(cert),
                         expired ? "20210101000000Z" : "20491231235959Z");
    X509_set_pubkey(cert, key);
    X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)subject,
                               -1, -1, 0);
    return cert;
}

static inline void
certs_add(struct certs *c, const struct cert_wish *w)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *cert = certs_make(c, w->file, key, w->expired);

    X509_set_issuer_name(cert, X509_get_subject_name(w->self_signed ? cert : c->ca));
    certs_extend(cert, NID_subject_alt_name, w->names);
    if (X509_sign(cert, w->self_signed ? key : c->ca_key, EVP_sha256()) == 0)
        abort();
    certs_write(c, w->file, cert, key);
    X509_free(cert);
    EVP_PKEY_free(key);
}

/* ca.crt signs all others; other-ca.crt signs none. */
static inline void
certs_begin(struct certs *c)
{
    *c = (struct certs){.dir = "/tmp/forebay-certs-XXXXXX"};
    if (mkdtemp(c->dir) == NULL)
        abort();
    for (int i = 0; i < 2; i++) {
        EVP_PKEY_free(c->ca_key);
        X509_free(c->ca);
        c->ca_key = EVP_EC_gen("P-256");
        c->ca = certs_make(c, i == 0 ? "other" : "test ca", c->ca_key, false);
        X509_set_issuer_name(c->ca, X509_get_subject_name(c->ca));
        certs_extend(c->ca, NID_basic_constraints, "critical,CA:TRUE");
        if (X509_sign(c->ca, c->ca_key, EVP_sha256()) == 0)
            abort();
        certs_write(c, i == 0 ? "other-ca" : "ca", c->ca, c->ca_key);
    }
}

static inline void
certs_remove(const struct certs *c, const char *name)
{
    char path[128];

    unlink(certs_path(c, name, "crt", path));
    unlink(certs_path(c, name, "key", path));
}

static inline void
certs_end(struct certs *c)
{
    certs_remove(c, "ca");
    certs_remove(c, "other-ca");
    rmdir(c->dir);
    X509_free(c->ca);
    EVP_PKEY_free(c->ca_key);
}
