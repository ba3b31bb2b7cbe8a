/* The key of a cluster: read exactly, and what is derived from it is HKDF-SHA256 (the vectors were made with another
 * implementation), so that nodes of different builds agree. */
#include "check.h"
#include "meta/cluster_key.h"

#include <stdlib.h>

#include "base/hash.h"

#define DIGITS "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static void
key_of_test(struct cluster_key *k)
{
    CHECK(cluster_key_parse(SPAN(DIGITS "\n"), k, NULL) == ERR_OK);
}

static void
test_text(void)
{
    struct cluster_key k, again;
    char text[CLUSTER_KEY_TEXT];

    key_of_test(&k);
    CHECK(k.bytes[0] == 0 && k.bytes[31] == 31);
    cluster_key_text(&k, text);
    CHECK(strcmp(text, DIGITS "\n") == 0);
    CHECK(cluster_key_parse(span_of(text), &again, NULL) == ERR_OK);
    CHECK(memcmp(&again, &k, sizeof k) == 0);
    cluster_key_wipe(&k);
    CHECK(k.bytes[31] == 0);
}

static void
test_what_is_no_key(void)
{
    static const char *const texts[] = {"",          "\n",       "00",
                                        DIGITS "00", "x" DIGITS, DIGITS " " DIGITS};

    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct errbuf eb = {{0}};
        struct cluster_key k;

        CHECK(cluster_key_parse(span_of(texts[i]), &k, &eb) == ERR_BAD_REQUEST);
        CHECK_SAYS(eb.text, "forebay cluster key > FILE");
    }
}

static void
test_derived(void)
{
    static const char proof[] =
        "fe4e789f1a31461bd23be18dcad08e4e015c0e718b9c44c91a2fbcb9ec65b430"
        "2be33fc8d8461c04";
    static const char sealing[] =
        "6b03f33e247a9350ea4d08e36315fa0725126c58afb8b0f3fbfb4da08cb6713e";
    unsigned char out[40];
    struct seal_key seal;
    struct cluster_key k;
    char text[2 * sizeof out + 1];

    key_of_test(&k);
    cluster_key_derive(&k, "forebay cluster proof", SPAN("bay"), out, sizeof out);
    hex_encode(out, sizeof out, text);
    text[2 * sizeof out] = '\0';
    CHECK(strcmp(text, proof) == 0);
    cluster_key_seal(&k, &seal);
    hex_encode(seal.bytes, sizeof seal.bytes, text);
    text[2 * sizeof seal.bytes] = '\0';
    CHECK(strcmp(text, sealing) == 0);
    cluster_key_derive(&k, "forebay cluster proof", SPAN("bax"), out, sizeof out);
    hex_encode(out, sizeof out, text);
    CHECK(strncmp(text, proof, 8) != 0);
}

int
main(void)
{
    RUN(test_text);
    RUN(test_what_is_no_key);
    RUN(test_derived);
    return check_done();
}
