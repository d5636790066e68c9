/* SPDX-License-Identifier: Apache-2.0 */
/* What the public headers promise to plugins is there: each SN_API function, and nothing beside
 * them. */
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "env/env_posix.h"
#include "plugin/loader.h"

#define HEADER_BYTES_MAX ((size_t)262144)

static const char *include_folder;

static char *read_header(const char *name)
{
    char path[1024];
    int written = snprintf(path, sizeof path, "%s/%s", include_folder, name);
    assert_true(written > 0 && (size_t)written < sizeof path);
    char *text = calloc(1, HEADER_BYTES_MAX);
    FILE *file = fopen(path, "rb");
    assert_non_null(text);
    assert_non_null(file);
    assert_true(fread(text, 1, HEADER_BYTES_MAX - 1, file) < HEADER_BYTES_MAX - 1);
    (void)fclose(file); /* was only read */
    return text;
}

/* The name before the bracket that opens the parameters: the last word before "(" that is not an
 * attribute. */
static void name_of(const char *declaration, char out[128])
{
    const char *open = strchr(declaration, '(');
    assert_non_null(open);
    const char *end = open;
    while (end > declaration && isspace((unsigned char)end[-1])) end--;
    const char *start = end;
    while (start > declaration && (isalnum((unsigned char)start[-1]) || start[-1] == '_')) start--;
    size_t size = (size_t)(end - start);
    assert_true(size > 3 && size < 128);
    memcpy(out, start, size);
    out[size] = '\0';
}

static unsigned check_header(const char *name)
{
    char *text = read_header(name);
    unsigned count = 0;
    for (const char *at = text; (at = strstr(at, "\nSN_API ")) != NULL;) {
        char function[128];
        at += strlen("\nSN_API ");
        name_of(at, function);
        if (dlsym(RTLD_DEFAULT, function) == NULL) {
            print_error("%s declares %s, which this program does not export\n", name, function);
            fail();
        }
        count++;
    }
    free(text);
    return count;
}

static void every_public_function_is_exported(void **state)
{
    (void)state;
    unsigned count = 0;
    DIR *folder = opendir(include_folder);
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (strstr(entry->d_name, ".h") != NULL) count += check_header(entry->d_name);
    }
    (void)closedir(folder); /* was only read */
    assert_true(count >= 24);
}

static void nothing_private_is_exported(void **state)
{
    (void)state;
    static const char *const private_names[] = {
        "sn_alloc",   "sn_plugin_load", "sn_schema_check", "sn_env_file_info",
        "sn_net_new", "sni_exports",    "sn_plugin"};
    /* The loader, and with it what it needs, is part of this program. */
    struct sn_env *env = NULL;
    assert_int_equal(sn_env_posix_new(&env), SN_OK);
    char sha256[SN_PLUGIN_SHA256_BYTES];
    struct sn_plugin_fault fault;
    const struct sn_plugin *plugin = NULL;
    const struct sn_plugin_source source = {.path = SN_SAMPLES_DIR "/good.so", .name = "good"};
    assert_int_equal(sn_plugin_load(env, &source, sha256, &fault, &plugin), SN_OK);
    sn_env_posix_free(env);
    for (size_t i = 0; i < sizeof private_names / sizeof private_names[0]; i++) {
        assert_null(dlsym(RTLD_DEFAULT, private_names[i]));
    }
}

int main(int argc, char **argv)
{
    if (argc != 2) return 2;
    include_folder = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_public_function_is_exported),
        cmocka_unit_test(nothing_private_is_exported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
