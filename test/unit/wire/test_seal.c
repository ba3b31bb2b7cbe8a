/* Sealed keys: open with the passphrase, with no other one, and not after any bit of them changed. Protects S10. */
#include "check.h"

#include "base/mem.h"
#include "wire/seal.h"

static const struct span pass = {"correct horse", 13};

static void
test_round(void)
{
    static const char *const plains[] = {"", "x", "user/bob and his keys"};

    for (unsigned i = 0; i < ARRAY_LEN(plains); i++) {
        struct buf sealed, again, plain;
        struct errbuf eb = {{0}};

        buf_init(&sealed, KIB(4));
        buf_init(&again, KIB(4));
        buf_init(&plain, KIB(4));
        CHECK(seal(pass, span_of(plains[i]), &sealed, &eb) == ERR_OK);
        CHECK(seal(pass, span_of(plains[i]), &again, &eb) == ERR_OK);
        CHECK(!span_eq(buf_span(&sealed), buf_span(&again))); /* salt and nonce */
        CHECK(memmem(sealed.at, sealed.len, "bob", 3) == NULL);
        CHECK(unseal(pass, buf_span(&sealed), &plain, &eb) == ERR_OK);
        CHECK(span_is(buf_span(&plain), plains[i]));
        buf_fini(&plain);
        buf_fini(&again);
        buf_fini(&sealed);
    }
}

static void
test_changed(void)
{
    struct buf sealed, plain;
    struct errbuf eb = {{0}};

    buf_init(&sealed, KIB(4));
    buf_init(&plain, KIB(4));
    CHECK(seal(pass, SPAN("secret"), &sealed, &eb) == ERR_OK);
    CHECK(unseal(SPAN("correct hors"), buf_span(&sealed), &plain, &eb) == ERR_DENIED);
    CHECK_SAYS(eb.text, "the passphrase is another one");
    for (size_t at = 12; at < sealed.len; at += 9) { /* each costs a key */
        sealed.at[at] ^= 4;
        CHECK(unseal(pass, buf_span(&sealed), &plain, &eb) == ERR_DENIED);
        sealed.at[at] ^= 4;
    }
    CHECK_U64(plain.len, 0);
    sealed.at[8] = 60; /* a key that would take for ever */
    CHECK(unseal(pass, buf_span(&sealed), &plain, &eb) == ERR_CORRUPT);
    sealed.len = 30;
    CHECK(unseal(pass, buf_span(&sealed), &plain, &eb) == ERR_CORRUPT);
    CHECK(seal(SPAN("short"), SPAN("x"), &plain, &eb) == ERR_BAD_REQUEST);
    CHECK_SAYS(eb.text, "a passphrase of 5 bytes, from 8 to 1024");
    buf_fini(&plain);
    buf_fini(&sealed);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_round);
    RUN(test_changed);
    return check_done();
}
