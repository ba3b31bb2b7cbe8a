/* sanitize: annotations of stacks and memory for the sanitizers; nothing in other builds.
 * Inside `rt` only. */
#pragma once
#include <stddef.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define FB_ASAN 1
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define ASAN_LEAVE(fake, low, size) __sanitizer_start_switch_fiber((fake), (low), (size))
#define ASAN_ARRIVE(fake, low, size)                                                     \
    __sanitizer_finish_switch_fiber((fake), (low), (size))
#define ASAN_CLEAN(low, size)  __asan_unpoison_memory_region((low), (size))
#define ASAN_POISON(low, size) __asan_poison_memory_region((low), (size))
#else
#define FB_ASAN                      0
#define ASAN_LEAVE(fake, low, size)  ((void)0)
#define ASAN_ARRIVE(fake, low, size) ((void)0)
#define ASAN_CLEAN(low, size)        ((void)0)
#define ASAN_POISON(low, size)       ((void)0)
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define FB_TSAN 1
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#define TSAN_CURRENT()  __tsan_get_current_fiber()
#define TSAN_CREATE()   __tsan_create_fiber(0)
#define TSAN_DESTROY(f) __tsan_destroy_fiber(f)
#define TSAN_SWITCH(f)  __tsan_switch_to_fiber((f), 0)
#else
#define FB_TSAN         0
#define TSAN_CURRENT()  NULL
#define TSAN_CREATE()   NULL
#define TSAN_DESTROY(f) ((void)(f))
#define TSAN_SWITCH(f)  ((void)(f))
#endif
