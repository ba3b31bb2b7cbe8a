/* The one sum of what peers make us hold: tight beyond three quarters, until it is down to five eighths; a document that
 * does not fit is refused. Protects D14, F4, F6. */
#include "base/account.h"
#include "base/arena.h"
#include "check.h"

static void
test_tight_and_back(void)
{
    uint64_t before = account_sum();

    account_set_limit(before + 8000);
    CHECK(account_tight() == 0);
    account_add(ACCOUNT_CONNECTIONS, (int64_t)before + 6100);
    CHECK((account_tight() & TIGHT_MEMORY) != 0);
    account_add(ACCOUNT_CONNECTIONS, -500); /* still over five eighths: no flapping */
    CHECK((account_tight() & TIGHT_MEMORY) != 0);
    account_add(ACCOUNT_CONNECTIONS, -2000 - (int64_t)before);
    CHECK(account_tight() == 0);
    CHECK_U64(account_of(ACCOUNT_CONNECTIONS), 3600);
    CHECK(!account_reserve(ACCOUNT_DOCUMENTS, 4500));
    CHECK(!account_reserve(ACCOUNT_DOCUMENTS, UINT64_MAX));
    CHECK_U64(account_of(ACCOUNT_DOCUMENTS), 0);
    CHECK(account_reserve(ACCOUNT_DOCUMENTS, 4000));
    CHECK_U64(account_sum(), before + 7600);
    account_add(ACCOUNT_DOCUMENTS, -4000);
    account_add(ACCOUNT_CONNECTIONS, -3600);
    account_set_limit(0);
    CHECK(account_reserve(ACCOUNT_DOCUMENTS, 1u << 30)); /* no limit: never tight */
    CHECK(account_tight() == 0);
    account_add(ACCOUNT_DOCUMENTS, -(1 << 30));
    CHECK_U64(account_sum(), before);
}

static void
test_buffers_have_a_limit_of_their_own(void)
{
    uint64_t sum = account_sum();

    account_set_buffer_limit(1000);
    account_add(ACCOUNT_BUFFERS, 800);
    CHECK(account_tight() == TIGHT_BUFFERS);
    CHECK_U64(account_sum(), sum); /* they are beside it */
    account_add(ACCOUNT_BUFFERS, -300);
    CHECK(account_tight() == 0);
    account_add(ACCOUNT_BUFFERS, -500);
    account_set_buffer_limit(0);
}

static void
test_arenas_count_themselves(void)
{
    uint64_t before = account_of(ACCOUNT_ARENAS);
    struct arena *a = arena_new(4096, 1u << 20);

    CHECK(account_of(ACCOUNT_ARENAS) >= before + 4096);
    (void)arena_alloc(a, 100000);
    CHECK(account_of(ACCOUNT_ARENAS) >= before + 104096);
    arena_reset(a);
    CHECK(account_of(ACCOUNT_ARENAS) < before + 8192);
    arena_free(&a);
    CHECK_U64(account_of(ACCOUNT_ARENAS), before);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_tight_and_back);
    RUN(test_buffers_have_a_limit_of_their_own);
    RUN(test_arenas_count_themselves);
    return check_done();
}
