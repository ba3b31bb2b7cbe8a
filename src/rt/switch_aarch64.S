/* The switch on aarch64 (AAPCS64). Frame of 176 bytes, from the saved stack pointer
 * upwards:
 *   +0 x19 .. x30, +96 d8 .. d15, +160 fpcr, +168 padding */
#if defined(__aarch64__)
        .text
        .globl  switch_to
        .type   switch_to, %function
        .balign 16
switch_to:
        .cfi_startproc
        hint    #34                     /* bti c */
        sub     sp, sp, #176
        .cfi_adjust_cfa_offset 176
        stp     x19, x20, [sp, #0]
        .cfi_rel_offset x19, 0
        .cfi_rel_offset x20, 8
        stp     x21, x22, [sp, #16]
        .cfi_rel_offset x21, 16
        .cfi_rel_offset x22, 24
        stp     x23, x24, [sp, #32]
        .cfi_rel_offset x23, 32
        .cfi_rel_offset x24, 40
        stp     x25, x26, [sp, #48]
        .cfi_rel_offset x25, 48
        .cfi_rel_offset x26, 56
        stp     x27, x28, [sp, #64]
        .cfi_rel_offset x27, 64
        .cfi_rel_offset x28, 72
        stp     x29, x30, [sp, #80]
        .cfi_rel_offset x29, 80
        .cfi_rel_offset x30, 88
        stp     d8, d9, [sp, #96]
        stp     d10, d11, [sp, #112]
        stp     d12, d13, [sp, #128]
        stp     d14, d15, [sp, #144]
        mrs     x9, fpcr
        str     x9, [sp, #160]

        mov     x10, sp
        str     x10, [x0]
        mov     sp, x1

        ldr     x10, [sp, #160]
        cmp     x9, x10
        b.eq    1f                      /* writing FPCR is slow: only when it differs */
        msr     fpcr, x10
1:      ldp     d14, d15, [sp, #144]
        ldp     d12, d13, [sp, #128]
        ldp     d10, d11, [sp, #112]
        ldp     d8, d9, [sp, #96]
        ldp     x29, x30, [sp, #80]
        ldp     x27, x28, [sp, #64]
        ldp     x25, x26, [sp, #48]
        ldp     x23, x24, [sp, #32]
        ldp     x21, x22, [sp, #16]
        ldp     x19, x20, [sp, #0]
        add     sp, sp, #176
        .cfi_adjust_cfa_offset -176
        ret
        .cfi_endproc
        .size   switch_to, .-switch_to

/* A fresh stack: x19 is the function, x20 its argument. */
        .globl  switch_entry
        .type   switch_entry, %function
        .balign 16
switch_entry:
        .cfi_startproc
        .cfi_undefined x30
        hint    #34                     /* bti c */
        mov     x0, x20
        blr     x19
        brk     #1
        .cfi_endproc
        .size   switch_entry, .-switch_entry

        .section .note.gnu.property, "a"
        .balign 8
        .long   4, 16, 5
        .asciz  "GNU"
        .long   0xc0000000, 4, 1, 0     /* BTI */
#endif
        .section .note.GNU-stack, "", %progbits
