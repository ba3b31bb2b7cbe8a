/* bigmem: large tables that live as long as the process and are read at random, and blocks of buffers (blocks.h).
 * Zeroed, touched only as they fill, on huge pages where the kernel gives them: a look-up in a table of many MiB
 * waits for page tables otherwise. Any thread. */
#pragma once
#include <stddef.h>

/* Never NULL: stops the process when there is no address space. */
void *bigmem_new(size_t bytes);
void *bigmem_try(size_t bytes);          /* NULL: there is none */
void bigmem_free(void *p, size_t bytes); /* NULL is fine; `bytes` as it was made */
