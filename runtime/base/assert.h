/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions that stay on in release. They are for our own bugs only: bytes from a wire, a disk, a
 * configuration or a user are errors (sennit/err.h), never assertions. A failed one runs the panic
 * hook (the agent installs one that dumps the flight recorder), then aborts.
 */
#ifndef SN_BASE_ASSERT_H
#define SN_BASE_ASSERT_H

typedef void (*sn_panic_hook)(const char *file, int line, const char *expr);

/* Installs the hook run before abort(); call once, before threads exist. */
void sn_panic_set_hook(sn_panic_hook hook);

__attribute__((noreturn, cold)) void sn_panic(const char *file, int line, const char *expr);

#define SN_ASSERT(cond)                                                                            \
    (__builtin_expect(!!(cond), 1) ? (void)0 : sn_panic(__FILE__, __LINE__, #cond))

#ifdef NDEBUG
#define SN_DEBUG_ASSERT(cond) ((void)0)
#else
#define SN_DEBUG_ASSERT(cond) SN_ASSERT(cond)
#endif

/* Magic of a long-lived object, checked at its entry points and cleared when it is freed. */
#define SN_MAGIC(a, b, c, d)                                                                       \
    (((uint32_t)(a) << 24) | ((uint32_t)(b) << 16) | ((uint32_t)(c) << 8) | (uint32_t)(d))

#define SN_CONTAINER_OF(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

#define SN_ARRAY_COUNT(array) (sizeof(array) / sizeof((array)[0]))

#endif
