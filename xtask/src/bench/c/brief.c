/* The process a storm is made of: it exits at once. No libc, so that its whole life is fork, exec
 * and exit, and a tracer is measured on those and not on a dynamic loader. */

#if defined(__x86_64__)
__asm__(".globl _start\n"
        "_start:\n"
        "    mov $231, %eax\n" /* exit_group */
        "    xor %edi, %edi\n"
        "    syscall\n"
        "    ud2\n");
#elif defined(__aarch64__)
__asm__(".globl _start\n"
        "_start:\n"
        "    mov x8, #94\n" /* exit_group */
        "    mov x0, #0\n"
        "    svc #0\n");
#else
#error "brief.c knows x86_64 and aarch64: add the exit_group of this machine"
#endif
