/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* nftw */
#include "commands.h"

#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "crypto/key.h"
#include "env/env_posix.h"

#define ARGS_MAX 32

char caught_out[CAUGHT_BYTES];
char caught_err[CAUGHT_BYTES];
static size_t caught_size[2];
static struct sn_env *test_env;
static char test_folder[256];

void __wrap_sn_env_print(struct sn_env *env, int to_stderr, const char *text, size_t size);

void __wrap_sn_env_print(struct sn_env *env, int to_stderr, const char *text, size_t size)
{
    (void)env; /* everything is caught */
    char *caught = to_stderr ? caught_err : caught_out;
    size_t *used = &caught_size[to_stderr != 0];
    assert_true(*used + size < CAUGHT_BYTES);
    memcpy(caught + *used, text, size);
    *used += size;
    caught[*used] = '\0';
}

void forget_caught(void)
{
    caught_size[0] = caught_size[1] = 0;
    caught_out[0] = caught_err[0] = '\0';
}

int commands_begin(void **state)
{
    (void)state;
    /* Memory, where there is a file system of it: commands sync each file that they write. */
    const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    (void)snprintf(test_folder, sizeof test_folder, "%s/sennit-test-XXXXXX", parent);
    if (mkdtemp(test_folder) == NULL || chdir(test_folder) != 0) return -1;
    if (sn_crypto_init() != SN_OK) return -1;
    return sn_env_posix_new(&test_env) == SN_OK ? 0 : -1;
}

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

int commands_end(void **state)
{
    (void)state;
    sn_env_posix_free(test_env);
    if (chdir("/") != 0) return -1;
    return nftw(test_folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

struct sn_env *commands_env(void)
{
    return test_env;
}

struct sn_cli make_cli(const char *name, const char *args)
{
    static struct sn_command command;
    static char text[4096];
    static char *argv[ARGS_MAX + 1];
    struct sn_cli cli = {.env = test_env, .command = &command, .argv = argv};
    command = (struct sn_command){.name = name, .usage = "HOW TO USE IT"};
    assert_true(strlen(args) < sizeof text);
    memcpy(text, args, strlen(args) + 1);
    for (char *at = text; *at != '\0';) {
        assert_true(cli.argc < ARGS_MAX);
        argv[cli.argc++] = at;
        at += strcspn(at, " ");
        if (*at == ' ') *at++ = '\0';
    }
    forget_caught();
    return cli;
}

int run_command(int (*command)(struct sn_cli *cli), const char *name, const char *args)
{
    struct sn_cli cli = make_cli(name, args);
    return command(&cli);
}

void expect_part(const char *text, const char *part)
{
    if (strstr(text, part) == NULL) fail_msg("no \"%s\" in \"%s\"", part, text);
}

void write_file(const char *path, unsigned mode, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

char *read_text(const char *path)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) fail_msg("%s is missing", path);
    char *text = calloc(1, CAUGHT_BYTES);
    assert_non_null(text);
    size_t size = fread(text, 1, CAUGHT_BYTES - 1, file);
    assert_true(size < CAUGHT_BYTES - 1);
    assert_int_equal(fclose(file), 0);
    return text;
}

unsigned mode_of(const char *path)
{
    struct stat info;
    if (stat(path, &info) != 0) fail_msg("%s is missing", path);
    return info.st_mode & 07777u;
}

int is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

unsigned count_entries(const char *path)
{
    unsigned count = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder) != NULL) count++;
    assert_int_equal(closedir(folder), 0);
    return count - 2; /* itself and its parent */
}
