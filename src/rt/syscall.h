/* syscall: system calls without a function of libc around them. Inside `rt` only.
 *
 * A kernel that guards its returns against speculation forgets where a program's functions would return to: each return that
 * follows a call is guessed wrong, by some 20 cycles. Inlined, there is one less for each call, and no look at errno. */
#pragma once
#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The result, or a negative errno. */
static inline long
syscall_raw(long number, long a, long b, long c, long d, long e, long f)
{
#if defined(__x86_64__)
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long rc;

    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory", "cc");
    return rc;
#elif defined(__aarch64__)
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;

    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
#else
    long rc = syscall(number, a, b, c, d, e, f);

    return rc >= 0 ? rc : -errno;
#endif
}
