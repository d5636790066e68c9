/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A member of the mesh with a good certificate and key, which does what a script on stdin says (commands.h): a tool of
 * the tests, to see what an agent takes from a peer that it has to trust to be a member, and nothing more.
 * usage: hostile_member AGENT.yaml  (in a folder as `sennit render` makes it; only its key, certificate and mesh count)
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "hostile_member/commands.h"

#define LINE_BYTES (1024u * 1024u)

struct input {
    size_t size;
    int is_ended;
    char bytes[LINE_BYTES];
};

static void read_more(struct input *input)
{
    ssize_t got = read(STDIN_FILENO, input->bytes + input->size, sizeof input->bytes - input->size);
    if (got <= 0) {
        input->is_ended = 1; /* also when a line is too long */
        return;
    }
    input->size += (size_t)got;
}

/* Carries out the whole lines that are there. */
static void run_lines(struct hm_member *member, struct input *input)
{
    char *end;
    while ((end = memchr(input->bytes, '\n', input->size)) != NULL) {
        struct hm_line line;
        *end = '\0';
        if (hm_line_parse(&line, input->bytes)) hm_command_run(member, &line);
        size_t used = (size_t)(end - input->bytes) + 1;
        memmove(input->bytes, input->bytes + used, input->size - used);
        input->size -= used;
    }
}

int main(int argc, char **argv)
{
    static struct hm_member member;
    static struct input input;
    if (argc != 2) {
        (void)fputs("usage: hostile_member AGENT.yaml\n", stderr); /* nothing to do about it */
        return 2;
    }
    enum sn_err err = hm_member_init(&member, argv[1]);
    if (err != SN_OK) {
        (void)fprintf(stderr, "hostile_member: %s\n", sn_err_text(err)); /* as above */
    }
    while (err == SN_OK && !input.is_ended) {
        if (hm_member_serve(&member, STDIN_FILENO, 1000)) read_more(&input);
        run_lines(&member, &input);
    }
    hm_member_fini(&member);
    return err == SN_OK ? 0 : 1;
}
