/* The switch on x86-64 (System V). Frame, from the saved stack pointer upwards:
 *   +0 mxcsr, +4 x87 control word, +8 r15, r14, r13, r12, rbx, rbp, +56 return address
 * tools that walk a suspended stack (gdb) rely on it. */
#if defined(__x86_64__)
        .text
        .globl  switch_to
        .type   switch_to, @function
        .balign 16
switch_to:
        .cfi_startproc
        endbr64
        pushq   %rbp
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbp, 0
        pushq   %rbx
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset rbx, 0
        pushq   %r12
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r12, 0
        pushq   %r13
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r13, 0
        pushq   %r14
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r14, 0
        pushq   %r15
        .cfi_adjust_cfa_offset 8
        .cfi_rel_offset r15, 0
        subq    $8, %rsp
        .cfi_adjust_cfa_offset 8
        stmxcsr (%rsp)
        fnstcw  4(%rsp)

        movq    %rsp, (%rdi)
        movq    %rsi, %rsp

        ldmxcsr (%rsp)
        fldcw   4(%rsp)
        addq    $8, %rsp
        .cfi_adjust_cfa_offset -8
        popq    %r15
        .cfi_adjust_cfa_offset -8
        .cfi_restore r15
        popq    %r14
        .cfi_adjust_cfa_offset -8
        .cfi_restore r14
        popq    %r13
        .cfi_adjust_cfa_offset -8
        .cfi_restore r13
        popq    %r12
        .cfi_adjust_cfa_offset -8
        .cfi_restore r12
        popq    %rbx
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbx
        popq    %rbp
        .cfi_adjust_cfa_offset -8
        .cfi_restore rbp
        ret
        .cfi_endproc
        .size   switch_to, .-switch_to

/* A fresh stack: r13 is the function, r12 its argument, rsp is aligned to 16. */
        .globl  switch_entry
        .type   switch_entry, @function
        .balign 16
switch_entry:
        .cfi_startproc
        .cfi_undefined rip
        endbr64
        movq    %r12, %rdi
        callq   *%r13
        ud2
        .cfi_endproc
        .size   switch_entry, .-switch_entry

/* Indirect branch tracking is supported; user shadow stacks are not (each fiber would
 * need its own). */
        .section .note.gnu.property, "a"
        .balign 8
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000002, 4, 1, 0
#endif
        .section .note.GNU-stack, "", @progbits
