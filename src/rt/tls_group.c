/* tls_group: certificates of a group that shares a secret. The authority is the same for all members, byte by byte, for its
 * key and its content follow from the secret; only the members' own keys are random. */
#include <assert.h>
#include <openssl/err.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <string.h>

#include "rt/tls_context.h"

#define AUTHORITY_NAME "forebay group authority"

static enum err
group_failed(struct errbuf *eb, const char *what)
{
    unsigned long code = ERR_peek_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    enum err rc = err_set(eb, ERR_INTERNAL, "OpenSSL can't make %s: %s", what,
                          reason != NULL ? reason : "unknown error");

    ERR_clear_error();
    return rc;
}

static bool
add_extension(X509 *certificate, X509 *issuer, int nid, const char *value)
{
    X509_EXTENSION *e;
    X509V3_CTX ctx;
    bool ok;

    X509V3_set_ctx_nodb(&ctx);
    X509V3_set_ctx(&ctx, issuer, certificate, NULL, NULL, 0);
    e = X509V3_EXT_nconf_nid(NULL, &ctx, nid, value);
    ok = e != NULL && X509_add_ext(certificate, e, -1) == 1;
    X509_EXTENSION_free(e);
    return ok;
}

/* Without an end: the secret is what ends. */
static X509 *
certificate_begin(const char *name, uint64_t serial, EVP_PKEY *key)
{
    X509 *x = X509_new();
    X509_NAME *subject = x != NULL ? X509_get_subject_name(x) : NULL;
    bool ok = subject != NULL && X509_set_version(x, X509_VERSION_3) == 1 &&
              ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial) == 1 &&
              ASN1_TIME_set_string_X509(X509_getm_notBefore(x), "20000101000000Z") == 1 &&
              ASN1_TIME_set_string_X509(X509_getm_notAfter(x), "99991231235959Z") == 1 &&
              X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8,
                                         (const unsigned char *)name, -1, -1, 0) == 1 &&
              X509_set_pubkey(x, key) == 1;

    if (!ok) {
        X509_free(x);
        x = NULL;
    }
    return x;
}

static X509 *
make_authority(EVP_PKEY *key)
{
    X509 *x = certificate_begin(AUTHORITY_NAME, 1, key);
    bool ok = x != NULL && X509_set_issuer_name(x, X509_get_subject_name(x)) == 1 &&
              add_extension(x, x, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") &&
              add_extension(x, x, NID_key_usage, "critical,keyCertSign") &&
              add_extension(x, x, NID_subject_key_identifier, "hash") &&
              X509_sign(x, key, NULL) > 0;

    if (!ok) {
        X509_free(x);
        x = NULL;
    }
    return x;
}

static X509 *
make_member(const char *name, EVP_PKEY *own, X509 *authority, EVP_PKEY *signer)
{
    char alternative[300];
    uint64_t serial = 0;
    X509 *x;
    bool ok;

    if (RAND_bytes((unsigned char *)&serial, sizeof serial) != 1)
        return NULL;
    snprintf(alternative, sizeof alternative, "DNS:%s", name);
    x = certificate_begin(name, serial >> 1 | 1, own);
    ok = x != NULL && X509_set_issuer_name(x, X509_get_subject_name(authority)) == 1 &&
         add_extension(x, authority, NID_basic_constraints, "critical,CA:FALSE") &&
         add_extension(x, authority, NID_key_usage, "critical,digitalSignature") &&
         add_extension(x, authority, NID_ext_key_usage, "serverAuth,clientAuth") &&
         add_extension(x, authority, NID_subject_alt_name, alternative) &&
         add_extension(x, authority, NID_authority_key_identifier, "keyid:always") &&
         X509_sign(x, signer, NULL) > 0;
    if (!ok) {
        X509_free(x);
        x = NULL;
    }
    return x;
}

static bool
context_fill(SSL_CTX *x, X509 *authority, X509 *own, EVP_PKEY *key)
{
    SSL_CTX_set_verify(x, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    SSL_CTX_set_session_cache_mode(x, SSL_SESS_CACHE_OFF);
    return SSL_CTX_set_min_proto_version(x, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_num_tickets(x, 0) == 1 &&
           X509_STORE_add_cert(SSL_CTX_get_cert_store(x), authority) == 1 &&
           SSL_CTX_use_certificate(x, own) == 1 && SSL_CTX_use_PrivateKey(x, key) == 1 &&
           SSL_CTX_check_private_key(x) == 1;
}

/* One handshake in memory: it proves that the certificates do, and makes what OpenSSL makes at first use. */
static bool
group_warm_up(SSL_CTX *server, SSL_CTX *client, const char *name)
{
    SSL *a = tls_memory_new(server), *b = tls_memory_new(client);
    bool done[2] = {false, false};

    SSL_set_accept_state(a);
    SSL_set_connect_state(b);
    for (int i = 0; i < 6 && tls_expect_host(b, name) && !(done[0] && done[1]); i++) {
        done[1] = SSL_do_handshake(b) == 1;
        tls_memory_move(b, a);
        done[0] = SSL_do_handshake(a) == 1;
        tls_memory_move(a, b);
    }
    SSL_free(a);
    SSL_free(b);
    return done[0] && done[1];
}

enum err
tls_group_new(const struct tls_group_options *o, struct tls_context **server,
              struct tls_context **client, struct errbuf *eb)
{
    struct tls_context *s = tls_context_new(true), *c = tls_context_new(false);
    EVP_PKEY *signer =
        EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, o->authority, 32);
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    X509 *authority = NULL, *own = NULL;
    enum err rc = ERR_OK;

    assert(strlen(o->name) > 0 && strlen(o->name) < 256);
    *server = *client = NULL;
    if (signer != NULL && key != NULL)
        authority = make_authority(signer);
    if (authority != NULL)
        own = make_member(o->name, key, authority, signer);
    if (own == NULL)
        rc = group_failed(eb, "the certificate of this node");
    else if (!context_fill(atomic_load(&s->ssl_ctx), authority, own, key) ||
             !context_fill(atomic_load(&c->ssl_ctx), authority, own, key))
        rc = group_failed(eb, "a TLS context");
    else if (!group_warm_up(atomic_load(&s->ssl_ctx), atomic_load(&c->ssl_ctx), o->name))
        rc = group_failed(eb, "a handshake with its own certificate");
    X509_free(own);
    X509_free(authority);
    EVP_PKEY_free(key);
    EVP_PKEY_free(signer);
    if (rc != ERR_OK) {
        tls_context_free(&s);
        tls_context_free(&c);
        return rc;
    }
    ERR_clear_error();
    *server = s;
    *client = c;
    return ERR_OK;
}
