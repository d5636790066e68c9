/* SPDX-License-Identifier: Apache-2.0 */
/* Which two listeners on one machine claim the same port: the table is what bind() does on Linux. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/assert.h"
#include "config/listen.h"

static const struct {
    const char *a;
    const char *b;
    int overlaps;
} cases[] = {
    {"127.0.0.1:80", "127.0.0.1:80", 1},
    {"127.0.0.1:80", "127.0.0.1:81", 0},
    {"127.0.0.1:80", "127.0.0.2:80", 0},
    {"127.0.0.1:0", "127.0.0.1:0", 0}, /* the system chooses two */
    {"0.0.0.0:80", "127.0.0.1:80", 1},
    {"0.0.0.0:80", "0.0.0.0:80", 1},
    {"0.0.0.0:0", "0.0.0.0:0", 0},
    {"0.0.0.0:80", "[::1]:80", 0},
    {"0.0.0.0:80", "[::]:80", 1}, /* all of IPv6 takes in IPv4 */
    {"[::]:80", "127.0.0.1:80", 1},
    {"[::]:80", "[::1]:80", 1},
    {"[::]:80", "[::1]:81", 0},
    {"[::1]:80", "[::1]:80", 1},
    {"[::1]:80", "[0:0:0:0:0:0:0:1]:80", 1},
    {"[::1]:80", "127.0.0.1:80", 0},
    {"[::ffff:127.0.0.1]:80", "127.0.0.1:80", 1},
    {"[::ffff:127.0.0.1]:80", "0.0.0.0:80", 1},
    {"localhost:80", "127.0.0.1:80", 1},
    {"LocalHost:80", "localhost:80", 1},
    {"localhost:80", "0.0.0.0:80", 1},
    {"localhost:80", "127.0.0.2:80", 0},
    {"localhost:0", "localhost:0", 0},
    {"hub.example:80", "hub.example:80", 1},
    {"hub.example:80", "HUB.example:80", 1},
    {"hub.example:80", "edge.example:80", 0},
    {"hub.example:80", "10.0.0.1:80", 0}, /* nobody asks the name service here */
    {"hub.example:80", "0.0.0.0:80", 1},
    {"hub.example:80", "[::]:80", 1},
};

static void each_pair_either_way_round(void **state)
{
    (void)state;
    for (size_t i = 0; i < SN_ARRAY_COUNT(cases); i++) {
        int forth = sni_listen_overlaps(cases[i].a, cases[i].b);
        int back = sni_listen_overlaps(cases[i].b, cases[i].a);
        if (forth != cases[i].overlaps || back != forth) {
            fail_msg("%s and %s: %d, %d", cases[i].a, cases[i].b, forth, back);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_pair_either_way_round)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
