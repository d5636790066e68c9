/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the real environment share. */
#ifndef SN_TESTS_UNIT_ENV_ENV_TEST_H
#define SN_TESTS_UNIT_ENV_ENV_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "env/env.h"
#include "env/env_posix.h"

#define assert_ok(call) assert_int_equal((call), SN_OK)
#define PATH_BYTES      512

struct fixture {
    struct sn_env *env;
    char folder[64];
};

/* cmocka fixtures: an environment and an empty folder. */
static inline int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    assert_ok(sn_env_posix_new(&fixture->env));
    snprintf(fixture->folder, sizeof fixture->folder, "/tmp/sn-env-XXXXXX");
    assert_non_null(mkdtemp(fixture->folder));
    *state = fixture;
    return 0;
}

static inline int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", fixture->folder);
    /* NOLINTNEXTLINE(cert-env33-c): the name comes from mkdtemp */
    assert_int_equal(system(command), 0);
    sn_env_posix_free(fixture->env);
    free(fixture);
    assert_int_equal(sn_alloc_in_use(), 0);
    return 0;
}

static inline const char *path_in(const struct fixture *fixture, char *out, const char *name)
{
    int used = snprintf(out, PATH_BYTES, "%s/%s", fixture->folder, name);
    assert_in_range(used, 1, PATH_BYTES - 1);
    return out;
}

static inline struct sn_netaddr loopback(uint16_t port)
{
    return (struct sn_netaddr){.family = SN_NETADDR_IP4, .port = port, .ip = {127, 0, 0, 1}};
}

#endif
