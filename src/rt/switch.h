/* switch: from one stack to another, in one file of assembly for each machine
 * (switch_ARCH.S).
 *
 * Kept over a switch: what the ABI calls callee-saved, and the floating point control
 * words, so that a fiber's rounding mode stays its own. Not kept: errno, the signal mask.
 * Knows nothing of fibers or sanitizers. Any thread, but a stack that was begun on one
 * thread must not go on on another (thread-locals).
 */
#pragma once
#include <stdint.h>
#include <string.h>

/* Leaves the current stack with its place in *save and goes on at `to`. Returns when
 * another switch returns to it. */
void switch_to(void **save, void *to);

/* Never called: where a fresh stack begins. Calls fn(arg), which must not return. */
void switch_entry(void);

/* Makes a fresh stack below `top` (aligned down to 16). The first switch_to() its result
 * calls fn(arg). */
static inline void *
switch_make(char *top, void (*fn)(void *arg), void *arg)
{
    uint64_t *end = (uint64_t *)(void *)(top - ((uintptr_t)top & 15));
#if defined(__x86_64__)
    /* control words, r15, r14, r13, r12, rbx, rbp, return address */
    enum { WORDS = 8, FN = 3, ARG = 4, RETURN = 7 };
    uint64_t *words = end - WORDS;
    uint32_t mxcsr;
    uint16_t x87;

    memset(words, 0, WORDS * sizeof *words);
    __asm__ volatile("stmxcsr %0\n\tfnstcw %1" : "=m"(mxcsr), "=m"(x87));
    words[0] = (uint64_t)x87 << 32 | mxcsr;
#elif defined(__aarch64__)
    /* x19 .. x30, d8 .. d15, fpcr, padding */
    enum { WORDS = 22, FN = 0, ARG = 1, RETURN = 11, FPCR = 20 };
    uint64_t *words = end - WORDS;

    memset(words, 0, WORDS * sizeof *words);
    __asm__ volatile("mrs %0, fpcr" : "=r"(words[FPCR]));
#else
#error "no context switch for this machine: write src/rt/switch_ARCH.S and its frame here"
#endif
    words[FN] = (uint64_t)(uintptr_t)fn;
    words[ARG] = (uint64_t)(uintptr_t)arg;
    words[RETURN] = (uint64_t)(uintptr_t)switch_entry;
    return words;
}
