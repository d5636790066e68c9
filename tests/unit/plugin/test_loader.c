/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <fcntl.h>
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
#include "config/tree.h"
#include "env/env_posix.h"
#include "env/image.h"
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

/* Of the last load. */
static struct sn_plugin_fault fault;
static char sha256[SN_PLUGIN_SHA256_BYTES];

static enum sn_err load_as(struct fixture *f, const char *folder, const char *name,
                           const struct sn_config_node *digests, int needs_one,
                           const struct sn_plugin **out_plugin)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s.so", folder, name); /* fits */
    const struct sn_plugin_source source = {
        .path = path, .name = name, .sha256 = digests, .needs_sha256 = needs_one};
    return sn_plugin_load(f->env, &source, sha256, &fault, out_plugin);
}

static enum sn_err load(struct fixture *f, const char *folder, const char *name,
                        const struct sn_plugin **out_plugin)
{
    return load_as(f, folder, name, NULL, 0, out_plugin);
}

/* Number of descriptors of this process. */
static int count_descriptors(void)
{
    int count = 0;
    for (int fd = 0; fd < 256; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* Loads and wants the error, its text to contain `text`, and the output left alone. */
static void refused(struct fixture *f, const char *folder, const char *name, enum sn_err wanted,
                    const char *text)
{
    const struct sn_plugin *plugin = NULL;
    size_t before = sn_alloc_in_use();
    enum sn_err err = load(f, folder, name, &plugin);
    if (err != wanted || strstr(fault.cause, text) == NULL) {
        print_error("%s: %s, text: %s\n", name, sn_err_name(err), fault.cause);
    }
    assert_int_equal(err, wanted);
    assert_non_null(strstr(fault.cause, text));
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
    const struct sn_plugin *good = NULL;
    const struct sn_plugin *two = NULL;
    const struct sn_plugin *again = NULL;
    assert_int_equal(load(f, SN_SAMPLES_DIR, "good", &good), SN_OK);
    assert_int_equal(strlen(sha256), 64);
    assert_int_equal(load(f, SN_SAMPLES_DIR, "good-two", &two), SN_OK);
    assert_int_equal(load(f, SN_SAMPLES_DIR, "good", &again), SN_OK);
    assert_string_equal(fault.cause, "");
    assert_string_equal(fault.hint, "");
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
    const struct sn_plugin *good = NULL;
    const struct sn_host host = {.size = (uint32_t)sizeof host, .log = fake_log};
    struct sn_ctx ctx = {.host = &host};
    const struct sn_event event = {
        .kind = SN_EVENT_MESSAGE, .payload = (const uint8_t *)"x", .payload_size = 1};
    size_t before = sn_alloc_in_use();
    assert_int_equal(load(f, SN_SAMPLES_DIR, "good", &good), SN_OK);
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

static void names_are_labels(void **state)
{
    struct fixture *f = *state;
    static const char *const names[] = {"",      "../good", "good.so", "good/",  "a/b",   "Good",
                                        "-good", "good-",   ".",       "good\n", "go od", "/good"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        refused(f, SN_SAMPLES_DIR, names[i], SN_EINVAL, "names no plugin");
        assert_string_equal(sha256, ""); /* it was not even looked at */
        assert_null(strchr(fault.cause, '\n'));
    }
    struct sn_plugin_source source = {.path = "", .name = "good"};
    const struct sn_plugin *plugin = NULL;
    assert_int_equal(sn_plugin_load(f->env, &source, sha256, &fault, &plugin), SN_EINVAL);
}

static void only_plain_files_are_loaded(void **state)
{
    struct fixture *f = *state;
    char path[128];
    refused(f, f->folder, "good", SN_ENOENT, f->folder);
    (void)snprintf(path, sizeof path, "%s/folder.so", f->folder); /* fits */
    assert_int_equal(mkdir(path, 0755), 0);
    refused(f, f->folder, "folder", SN_EINVAL, "not a regular file");
    assert_non_null(strstr(fault.hint, "folder.so/folder.so"));
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
    const struct sn_plugin *plugin = NULL;
    copy_sample(f, "good.so", SIZE_MAX, 0646);
    refused(f, f->folder, "good", SN_EPERM, "the file can be written by everybody");
    assert_non_null(strstr(fault.hint, "chmod go-w "));
    copy_sample(f, "good.so", SIZE_MAX, 0664);
    refused(f, f->folder, "good", SN_EPERM, "the file can be written by its group");
    assert_non_null(strstr(fault.hint, "chmod go-w "));
    copy_sample(f, "good.so", SIZE_MAX, 0644);
    assert_int_equal(chmod(f->folder, 0707), 0);
    refused(f, f->folder, "good", SN_EPERM, "can be written by everybody");
    assert_non_null(strstr(fault.hint, "chmod go-w "));
    assert_int_equal(chmod(f->folder, 0770), 0);
    refused(f, f->folder, "good", SN_EPERM, "can be written by its group");
    assert_int_equal(chmod(f->folder, 0700), 0);
    assert_int_equal(load(f, f->folder, "good", &plugin), SN_OK);
}

/* Only root can give files away, so this is the one who finds what happens then. */
static void what_belongs_to_others_is_not_loaded(void **state)
{
    struct fixture *f = *state;
    char path[128];
    if (geteuid() != 0) skip();
    copy_sample(f, "good.so", SIZE_MAX, 0644);
    (void)snprintf(path, sizeof path, "%s/good.so", f->folder); /* fits */
    assert_int_equal(chown(path, 12345, 12345), 0);
    refused(f, f->folder, "good", SN_EPERM, "belongs to another user (uid 12345)");
    assert_non_null(strstr(fault.hint, "chown 0 "));
    const struct sn_plugin *plugin = NULL;
    struct sn_plugin_source source = {.path = path, .name = "good", .owner_uid = 12346};
    assert_int_equal(sn_plugin_load(f->env, &source, sha256, &fault, &plugin), SN_EPERM);
    source.owner_uid = 12345;
    assert_int_equal(sn_plugin_load(f->env, &source, sha256, &fault, &plugin), SN_OK);
}

/* --- Digests ----------------------------------------------------------------------------------- */

/* The node of a list with these digests; stays until the next call. Without any it is NULL, and nothing stays. */
static const struct sn_config_node *digests(const char *first, const char *second)
{
    static struct sn_config_tree *tree;
    struct sn_findings findings;
    char text[256];
    sn_config_tree_free(tree);
    tree = NULL;
    if (first == NULL) return NULL;
    (void)snprintf(text, sizeof text, "sha256: [\"%s\", \"%s\"]\n", first, second); /* fits */
    sn_findings_init(&findings);
    assert_int_equal(sn_config_parse(text, strlen(text), "t", &findings, &tree), SN_OK);
    sn_findings_fini(&findings);
    return sn_config_get(sn_config_root(tree), "sha256");
}

#define OTHER "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void digests_decide(void **state)
{
    struct fixture *f = *state;
    const struct sn_plugin *plugin = NULL;
    char own[SN_PLUGIN_SHA256_BYTES];
    char upper[SN_PLUGIN_SHA256_BYTES];
    char path[128];
    copy_sample(f, "good.so", SIZE_MAX, 0644);
    (void)snprintf(path, sizeof path, "%s/good.so", f->folder); /* fits */
    assert_int_equal(sn_plugin_hash(f->env, path, own), SN_OK);
    for (size_t i = 0; i < sizeof own; i++) upper[i] = (char)toupper((unsigned char)own[i]);

    assert_int_equal(load_as(f, f->folder, "good", NULL, 1, &plugin), SN_EMISMATCH);
    assert_non_null(strstr(fault.cause, "nothing allows it"));
    assert_non_null(strstr(fault.hint, own)); /* what to write */
    assert_int_equal(load_as(f, f->folder, "good", digests(OTHER, "x"), 0, &plugin), SN_EMISMATCH);
    assert_non_null(strstr(fault.cause, "not the file"));
    assert_string_equal(sha256, own);
    assert_null(plugin);
    assert_int_equal(load_as(f, f->folder, "good", digests(own, OTHER), 1, &plugin), SN_OK);
    plugin = NULL;
    assert_int_equal(load_as(f, f->folder, "good", digests(OTHER, upper), 1, &plugin), SN_OK);
    assert_int_equal(plugin->actor_count, 1);
    assert_null(digests(NULL, NULL));
}

/* What was hashed is what runs: the file may be overwritten in place, or cut, after that. */
static void what_was_hashed_stays(void **state)
{
    struct fixture *f = *state;
    const struct sn_plugin *plugin = NULL;
    char own[SN_PLUGIN_SHA256_BYTES];
    char path[128];
    char name[SN_IMAGE_PATH_BYTES];
    struct sn_image image;
    copy_sample(f, "good.so", SIZE_MAX, 0644);
    (void)snprintf(path, sizeof path, "%s/good.so", f->folder); /* fits */
    assert_int_equal(sn_plugin_hash(f->env, path, own), SN_OK);
    assert_int_equal(load_as(f, f->folder, "good", digests(own, OTHER), 1, &plugin), SN_OK);
    copy_sample(f, "good.so", 0, 0644); /* a loaded file that is cut would end the process */
    assert_string_equal(plugin->actors[0]->name, "sample");
    assert_int_equal(plugin->actors[0]->handle != NULL, 1);

    /* A sealed image cannot be written to by its name either. */
    copy_sample(f, "good.so", SIZE_MAX, 0644);
    assert_int_equal(sn_image_open(f->env, path, &image), SN_OK);
    assert_int_equal(sn_image_seal(f->env, &image, "good", "bytes", 5), SN_OK);
    sn_image_path(f->env, &image, name);
    int fd = open(name, O_RDWR);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "other", 5), -1);
    assert_int_equal(ftruncate(fd, 0), -1);
    assert_int_equal(close(fd), 0);
    sn_image_close(f->env, &image);
    assert_null(digests(NULL, NULL));
}

/* The system's loader goes by names: a descriptor that is used again must not yield the former plugin. */
static void each_file_is_itself(void **state)
{
    struct fixture *f = *state;
    const struct sn_plugin *good = NULL;
    const struct sn_plugin *two = NULL;
    int before = count_descriptors();
    for (unsigned i = 0; i < 3; i++) refused(f, SN_SAMPLES_DIR, "not-linked", SN_EIO, "missing");
    refused(f, SN_SAMPLES_DIR, "gone", SN_ENOENT, "");
    assert_int_equal(count_descriptors(), before); /* what was not loaded is closed */
    assert_int_equal(load(f, SN_SAMPLES_DIR, "good-two", &two), SN_OK);
    assert_int_equal(load(f, SN_SAMPLES_DIR, "good", &good), SN_OK);
    assert_string_equal(two->name, "good-two");
    assert_string_equal(good->name, "good");
}

static void lack_of_memory_is_survived(void **state)
{
    struct fixture *f = *state;
    char own[SN_PLUGIN_SHA256_BYTES];
    assert_int_equal(sn_plugin_hash(f->env, SN_SAMPLES_DIR "/good.so", own), SN_OK);
    const struct sn_config_node *node = digests(own, OTHER);
    size_t before = sn_alloc_in_use();
    enum sn_err err = SN_ENOMEM;
    for (uint64_t nth = 1; err != SN_OK; nth++) {
        const struct sn_plugin *plugin = NULL;
        assert_true(nth < 20);
        sn_alloc_fail_nth(nth);
        err = load_as(f, SN_SAMPLES_DIR, "good", node, 1, &plugin);
        sn_alloc_fail_nth(0);
        assert_true(err == SN_OK || err == SN_ENOMEM);
        assert_int_equal(plugin != NULL, err == SN_OK);
        assert_int_equal(fault.cause[0] != '\0', err != SN_OK);
        assert_int_equal(sn_alloc_in_use(), before);
    }
    assert_null(digests(NULL, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(good_plugins_are_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(loaded_code_reaches_the_host, set_up, tear_down),
        cmocka_unit_test_setup_teardown(damaged_plugins_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_are_labels, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_plain_files_are_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_others_may_write_is_not_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_belongs_to_others_is_not_loaded, set_up, tear_down),
        cmocka_unit_test_setup_teardown(digests_decide, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_hashed_stays, set_up, tear_down),
        cmocka_unit_test_setup_teardown(each_file_is_itself, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lack_of_memory_is_survived, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
