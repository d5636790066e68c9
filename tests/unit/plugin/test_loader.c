/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "env/env_posix.h"
#include "plugin/loader.h"

struct fixture {
    struct sn_env *env;
    char folder[64];
};

static int set_up(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_int_equal(sn_env_posix_new(&f->env), SN_OK);
    strcpy(f->folder, "/tmp/sn-plugin-XXXXXX"); /* tidy: allow strcpy: a constant that fits */
    assert_non_null(mkdtemp(f->folder));
    *state = f;
    return 0;
}

static const char *const copies[] = {"good.so", "text.so", "cut.so", "link.so", "empty.so"};

static int tear_down(void **state)
{
    struct fixture *f = *state;
    char path[128];
    for (size_t i = 0; i < sizeof copies / sizeof copies[0]; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", f->folder, copies[i]); /* fits */
        (void)unlink(path);                                               /* need not exist */
    }
    (void)snprintf(path, sizeof path, "%s/folder.so", f->folder); /* fits */
    (void)rmdir(path);                                            /* need not exist */
    assert_int_equal(rmdir(f->folder), 0);
    sn_env_posix_free(f->env);
    free(f);
    return 0;
}

/* Loads and wants the error, its text to contain `text`, and the output left alone. */
static void refused(struct fixture *f, const char *folder, const char *name, enum sn_err wanted,
                    const char *text)
{
    char error[SN_PLUGIN_ERROR_MAX] = "";
    const struct sn_plugin *plugin = NULL;
    size_t before = sn_alloc_in_use();
    enum sn_err err = sn_plugin_load(f->env, folder, name, error, &plugin);
    if (err != wanted || strstr(error, text) == NULL) {
        print_error("%s: %s, text: %s\n", name, sn_err_name(err), error);
    }
    assert_int_equal(err, wanted);
    assert_non_null(strstr(error, text));
    assert_null(plugin);
    assert_int_equal(sn_alloc_in_use(), before);
}

/* Copies at most `limit` bytes of the good sample. */
static void copy_sample(const struct fixture *f, const char *to, size_t limit, mode_t mode)
{
    static char bytes[1 << 20];
    char path[128];
    FILE *in = fopen(SN_SAMPLES_DIR "/good.so", "rb");
    assert_non_null(in);
    size_t size = fread(bytes, 1, sizeof bytes, in);
    assert_true(size > 1000 && size < sizeof bytes);
    (void)fclose(in);                                          /* was only read */
    (void)snprintf(path, sizeof path, "%s/%s", f->folder, to); /* fits */
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    if (size > limit) size = limit;
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void good_plugins_are_loaded(void **state)
{
    struct fixture *f = *state;
    char error[SN_PLUGIN_ERROR_MAX] = "";
    const struct sn_plugin *good = NULL;
    const struct sn_plugin *two = NULL;
    const struct sn_plugin *again = NULL;
    assert_int_equal(sn_plugin_load(f->env, SN_SAMPLES_DIR, "good", error, &good), SN_OK);
    assert_int_equal(sn_plugin_load(f->env, SN_SAMPLES_DIR, "good-two", error, &two), SN_OK);
    assert_int_equal(sn_plugin_load(f->env, SN_SAMPLES_DIR, "good", error, &again), SN_OK);
    assert_string_equal(error, "");
    assert_string_equal(good->name, "good");
    assert_string_equal(good->version, "1.2.3");
    assert_string_equal(two->name, "good-two"); /* each has a symbol sn_plugin of its own */
    assert_ptr_equal(good, again);
    assert_int_equal(good->actor_count, 1);
}

/* A plugin's handler runs, and reaches the program's functions. */
static void fake_log(struct sn_ctx *ctx, uint32_t level, const char *id, const char *text)
{
    (void)ctx; /* there is but one */
    assert_int_equal(level, SN_INFO);
    assert_string_equal(id, "SAMPLE");
    assert_string_equal(text, "text= reason=none");
}

static void loaded_code_reaches_the_host(void **state)
{
    struct fixture *f = *state;
    char error[SN_PLUGIN_ERROR_MAX] = "";
    const struct sn_plugin *good = NULL;
    const struct sn_host host = {.size = (uint32_t)sizeof host, .log = fake_log};
    struct sn_ctx ctx = {.host = &host};
    const struct sn_event event = {
        .kind = SN_EVENT_MESSAGE, .payload = (const uint8_t *)"x", .payload_size = 1};
    size_t before = sn_alloc_in_use();
    assert_int_equal(sn_plugin_load(f->env, SN_SAMPLES_DIR, "good", error, &good), SN_OK);
    assert_int_equal(good->actors[0]->handle(&ctx, NULL, &event), SN_OK);
    assert_int_equal(sn_alloc_in_use(), before); /* its buffer was this program's */
}

static void damaged_plugins_are_refused(void **state)
{
    struct fixture *f = *state;
    refused(f, SN_SAMPLES_DIR, "wrong-magic", SN_EINVAL, "not a plugin descriptor");
    refused(f, SN_SAMPLES_DIR, "wrong-major", SN_EVERSION, "ABI 1.1, this agent has 0.1");
    refused(f, SN_SAMPLES_DIR, "newer-minor", SN_EVERSION, "ABI 0.2, this agent has 0.1");
    refused(f, SN_SAMPLES_DIR, "short-struct", SN_EINVAL, "descriptor has 24 bytes");
    refused(f, SN_SAMPLES_DIR, "wrong-name", SN_EINVAL, "calls itself `other`");
    refused(f, SN_SAMPLES_DIR, "no-symbol", SN_EINVAL, "does not export `sn_plugin`");
    refused(f, SN_SAMPLES_DIR, "not-linked", SN_EIO, "sn_sample_missing");
}

static void names_cannot_leave_the_folder(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"",      "../good", "good.so", "good/",  "a/b",   "Good",
                                        "-good", "good-",   ".",       "good\n", "go od", "/good"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        refused(f, SN_SAMPLES_DIR, names[i], SN_EINVAL, "names no file");
    }
    refused(f, "", "good", SN_EINVAL, "names no file");
    char error[SN_PLUGIN_ERROR_MAX];
    const struct sn_plugin *plugin = NULL;
    assert_int_equal(sn_plugin_load(f->env, SN_SAMPLES_DIR, "go\nod", error, &plugin), SN_EINVAL);
    assert_null(strchr(error, '\n'));
}

static void only_plain_files_are_loaded(void **state)
{
    struct fixture *f = *state;
    char path[128];
    refused(f, f->folder, "good", SN_ENOENT, f->folder);
    (void)snprintf(path, sizeof path, "%s/folder.so", f->folder); /* fits */
    assert_int_equal(mkdir(path, 0755), 0);
    refused(f, f->folder, "folder", SN_EINVAL, "not a regular file");
    copy_sample(f, "cut.so", 900, 0644);
    refused(f, f->folder, "cut", SN_EINVAL, "cut short");
    copy_sample(f, "empty.so", 0, 0644);
    refused(f, f->folder, "empty", SN_EINVAL, "not a shared object");
    /* The file's own name, or what is behind a link: both name the plugin. */
    (void)snprintf(path, sizeof path, "%s/link.so", f->folder); /* fits */
    assert_int_equal(symlink(SN_SAMPLES_DIR "/good.so", path), 0);
    refused(f, f->folder, "link", SN_EINVAL, "calls itself `good`");
    (void)snprintf(path, sizeof path, "%s/none", f->folder); /* fits */
    refused(f, path, "good", SN_ENOENT, path);
    (void)snprintf(path, sizeof path, "%s/cut.so", f->folder); /* fits */
    refused(f, path, "good", SN_EINVAL, "is not a folder");
}

static void what_others_may_write_is_not_loaded(void **state)
{
    struct fixture *f = *state;
    char error[SN_PLUGIN_ERROR_MAX];
    const struct sn_plugin *plugin = NULL;
    copy_sample(f, "good.so", SIZE_MAX, 0646);
    refused(f, f->folder, "good", SN_EPERM, "the file can be written by everybody");
    copy_sample(f, "good.so", SIZE_MAX, 0644);
    assert_int_equal(chmod(f->folder, 0707), 0);
    refused(f, f->folder, "good", SN_EPERM, "can be written by everybody");
    assert_int_equal(chmod(f->folder, 0700), 0);
    assert_int_equal(sn_plugin_load(f->env, f->folder, "good", error, &plugin), SN_OK);
}

static void lack_of_memory_is_survived(void **state)
{
    struct fixture *f = *state;
    size_t before = sn_alloc_in_use();
    enum sn_err err = SN_ENOMEM;
    for (uint64_t nth = 1; err != SN_OK; nth++) {
        char error[SN_PLUGIN_ERROR_MAX] = "";
        const struct sn_plugin *plugin = NULL;
        assert_true(nth < 20);
        sn_alloc_fail_nth(nth);
        err = sn_plugin_load(f->env, SN_SAMPLES_DIR, "good", error, &plugin);
        sn_alloc_fail_nth(0);
        assert_true(err == SN_OK || err == SN_ENOMEM);
        assert_int_equal(plugin != NULL, err == SN_OK);
        assert_int_equal(error[0] != '\0', err != SN_OK);
        assert_int_equal(sn_alloc_in_use(), before);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good_plugins_are_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(loaded_code_reaches_the_host, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_plugins_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_cannot_leave_the_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_plain_files_are_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_others_may_write_is_not_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lack_of_memory_is_survived, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
