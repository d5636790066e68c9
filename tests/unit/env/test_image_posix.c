/* SPDX-License-Identifier: Apache-2.0 */
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
#include "env/env_posix.h"
#include "env/image.h"

#define CONTENT "the content"

static struct sn_env *env;
static char folder[64];
static char path[128];

static void put(const char *name, const char *content)
{
    (void)snprintf(path, sizeof path, "%s/%s", folder, name); /* fits */
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, strlen(content), file), strlen(content));
    assert_int_equal(fclose(file), 0);
}

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/sn-image-XXXXXX"); /* tidy: allow strcpy: a constant that fits */
    return sn_env_posix_new(&env) == SN_OK && mkdtemp(folder) != NULL ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    (void)unlink(path); /* need not exist */
    sn_env_posix_free(env);
    return rmdir(folder);
}

static void expect_content(const struct sn_image *image, const char *content)
{
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(sn_image_read(env, image, 100, &data, &size), SN_OK);
    assert_int_equal(size, strlen(content));
    assert_string_equal(data, content); /* it ends with a NUL */
    sn_free(data, size + 1);
}

/* What was opened is what is read, whatever its name stands for by then. */
static void names_may_change(void **state)
{
    struct sn_image image;
    (void)state;
    put("a", CONTENT);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(sn_image_open(env, path, &image), SN_OK);
    assert_int_equal(image.info.mode, 0640);
    assert_int_equal(image.info.size, strlen(CONTENT));
    assert_int_equal(image.info.is_file, 1);
    assert_int_equal(image.info.uid, geteuid());
    assert_int_equal(unlink(path), 0);
    put("a", "another file");
    expect_content(&image, CONTENT);
    expect_content(&image, CONTENT); /* any number of times */
    sn_image_close(env, &image);
    sn_image_close(env, &image); /* harmless */
}

static void files_that_change_are_read_as_they_are(void **state)
{
    struct sn_image image;
    (void)state;
    put("a", CONTENT);
    assert_int_equal(sn_image_open(env, path, &image), SN_OK);
    assert_int_equal(truncate(path, 3), 0);
    expect_content(&image, "the");
    sn_image_close(env, &image);
}

static void sealed_bytes_stay(void **state)
{
    struct sn_image image;
    char name[SN_IMAGE_PATH_BYTES];
    (void)state;
    put("a", CONTENT);
    assert_int_equal(sn_image_open(env, path, &image), SN_OK);
    assert_int_equal(sn_image_seal(env, &image, "some", "sealed", 6), SN_OK);
    put("a", "another content");
    expect_content(&image, "sealed");
    sn_image_path(env, &image, name);
    int fd = open(name, O_RDWR);
    assert_true(fd >= 0); /* it is this very file */
    assert_int_equal(pwrite(fd, "x", 1, 0), -1);
    assert_int_equal(ftruncate(fd, 1), -1);
    assert_int_equal(close(fd), 0);
    expect_content(&image, "sealed");
    sn_image_close(env, &image);
}

static void what_is_no_file_is_refused(void **state)
{
    struct sn_image image = {.id = -1};
    char *data = NULL;
    size_t size = 0;
    (void)state;
    assert_int_equal(sn_image_open(env, "/none/at/all", &image), SN_ENOENT);
    assert_int_equal(sn_image_open(env, folder, &image), SN_OK);
    assert_int_equal(image.info.is_folder, 1);
    assert_int_equal(sn_image_read(env, &image, 100, &data, &size), SN_EINVAL);
    sn_image_close(env, &image);
    put("a", CONTENT);
    assert_int_equal(sn_image_open(env, path, &image), SN_OK);
    assert_int_equal(sn_image_read(env, &image, strlen(CONTENT) - 1, &data, &size), SN_ETOOBIG);
    sn_alloc_fail_nth(1);
    assert_int_equal(sn_image_read(env, &image, 100, &data, &size), SN_ENOMEM);
    sn_alloc_fail_nth(0);
    assert_null(data);
    sn_image_close(env, &image);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(sn_image_open(env, path, &image), SN_OK); /* and does not wait for a writer */
    assert_int_equal(sn_image_read(env, &image, 100, &data, &size), SN_EINVAL);
    sn_image_close(env, &image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_may_change),
        cmocka_unit_test(files_that_change_are_read_as_they_are),
        cmocka_unit_test(sealed_bytes_stay),
        cmocka_unit_test(what_is_no_file_is_refused),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
