/* SPDX-License-Identifier: Apache-2.0 */
/* Runs commands of the program inside of a test, in a folder of their own, and catches what they
 * print. */
#ifndef SN_TESTS_UNIT_AGENTS_COMMANDS_H
#define SN_TESTS_UNIT_AGENTS_COMMANDS_H

#include "agents/cli.h"

#define CAUGHT_BYTES (256u * 1024u)

/* What was printed since the last command began. */
extern char caught_out[CAUGHT_BYTES];
extern char caught_err[CAUGHT_BYTES];
void forget_caught(void);

/* cmocka's group set-up: makes the environment and a folder, which becomes the working directory.
 * */
int commands_begin(void **state);
int commands_end(void **state);
struct sn_env *commands_env(void);

/* Runs a command; `args` are separated by single spaces. Returns the exit status. */
int run_command(int (*command)(struct sn_cli *cli), const char *name, const char *args);
/* A cli as a command gets it; argv is made of `args`, and valid until the next call. */
struct sn_cli make_cli(const char *name, const char *args);

/* Fails the test unless the text holds the part. */
void expect_part(const char *text, const char *part);

void write_file(const char *path, unsigned mode, const char *text);
/* Freed with free(). */
char *read_text(const char *path);
unsigned mode_of(const char *path);
int is_there(const char *path);
/* Number of entries of the folder. */
unsigned count_entries(const char *path);

#endif
