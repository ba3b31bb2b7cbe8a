/* The switch alone: registers, rounding mode, alignment, arguments. Needs only
 * rt/switch.h and the assembly, so that it also runs cross-compiled under qemu (make
 * check-aarch64). */
#include <fenv.h>
#include <stdlib.h>

#include "check.h"
#include "rt/switch.h"

enum { STACK = 64 << 10, SWITCHES = 1000 };

static void *main_sp, *other_sp;
static unsigned steps;
static void *seen_arg;
static uintptr_t seen_misalignment;

static void
count_steps(void *arg)
{
    _Alignas(16) char probe[16];

    seen_arg = arg;
    seen_misalignment = (uintptr_t)probe & 15;
    for (;;) {
        steps++;
        switch_to(&other_sp, main_sp);
    }
}

static void
test_goes_there_and_back(void)
{
    char *stack = aligned_alloc(4096, STACK);
    int here = 0;

    steps = 0;
    other_sp =
        switch_make(stack + STACK - 3, count_steps, &here); /* top is odd: aligned down */
    for (unsigned i = 1; i <= SWITCHES; i++) {
        switch_to(&main_sp, other_sp);
        CHECK(steps == i);
    }
    CHECK(seen_arg == &here);
    CHECK(seen_misalignment == 0);
    free(stack);
}

/* Enough live values that the compiler keeps some in callee-saved registers, integer and
 * floating. */
static __attribute__((noinline)) double
mix(uint64_t a, double x, void (*between)(void))
{
    uint64_t b = a * 3, c = a ^ 0x55, d = a + 9, e = a << 3, f = ~a;
    double y = x * 2, z = x + 0.5, w = x / 3, v = x - 7, u = x * x;

    between();
    return (double)(a + b * 2 + c * 3 + d * 5 + e * 7 + f * 11) + x + y * 2 + z * 3 +
           w * 5 + v * 7 + u * 11;
}

static void
do_nothing(void)
{
}

static void
go_to_other(void)
{
    switch_to(&main_sp, other_sp);
}

static double other_result;

static void
mix_in_other(void *arg)
{
    uint64_t n = *(uint64_t *)arg;

    for (;;) {
        other_result = mix(n++, 2.25, do_nothing);
        switch_to(&other_sp, main_sp);
    }
}

static void
test_keeps_registers(void)
{
    char *stack = aligned_alloc(4096, STACK);
    uint64_t n = 1000;

    other_sp = switch_make(stack + STACK, mix_in_other, &n);
    for (uint64_t i = 0; i < 100; i++) {
        double want = mix(i, 1.75, do_nothing);

        CHECK(mix(i, 1.75, go_to_other) == want);
        CHECK(other_result == mix(1000 + i, 2.25, do_nothing));
    }
    free(stack);
}

static int rounding_in_other[2];

static void
round_up(void *arg)
{
    (void)arg;
    rounding_in_other[0] = fegetround();
    fesetround(FE_UPWARD);
    switch_to(&other_sp, main_sp);
    rounding_in_other[1] = fegetround();
    switch_to(&other_sp, main_sp);
}

static void
test_keeps_the_rounding_mode_of_each_side(void)
{
    char *stack = aligned_alloc(4096, STACK);

    other_sp = switch_make(stack + STACK, round_up, NULL);
    switch_to(&main_sp, other_sp);
    CHECK(fegetround() == FE_TONEAREST);
    fesetround(FE_DOWNWARD);
    switch_to(&main_sp, other_sp);
    CHECK(fegetround() == FE_DOWNWARD);
    fesetround(FE_TONEAREST);
    CHECK(rounding_in_other[0] == FE_TONEAREST);
    CHECK(rounding_in_other[1] == FE_UPWARD);
    free(stack);
}

int
main(int argc, char **argv)
{
    CHECK_MAIN(argc, argv);
    RUN(test_goes_there_and_back);
    RUN(test_keeps_registers);
    RUN(test_keeps_the_rounding_mode_of_each_side);
    return check_done();
}
