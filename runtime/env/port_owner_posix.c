/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who listens on a port of this machine, for an error message. Best effort: another user's processes do not show their
 * descriptors, and the port may be free again by now. Source: proc(5), /proc/net/tcp and /proc/PID/fd.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/text.h"
#include "env/process.h"

#define STATE_LISTEN 0x0au
#define LINE_BYTES   512
#define PATH_BYTES   320 /* a name of a folder entry has at most 255 */

/* The inode of a socket that listens there; 0 = none is listed. */
static unsigned long find_inode(const char *table, uint16_t port)
{
    char line[LINE_BYTES];
    unsigned long found = 0;
    FILE *file = fopen(table, "re");
    if (file == NULL) return 0;
    while (found == 0 && fgets(line, sizeof line, file) != NULL) {
        unsigned local = 0;
        unsigned state = 0;
        unsigned long inode = 0;
        int count =
            sscanf(line, "%*d: %*[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*s %*s %*s %*s %*s %lu",
                   &local, &state, &inode);
        if (count == 3 && local == port && state == STATE_LISTEN) found = inode;
    }
    (void)fclose(file); /* it was only read */
    return found;
}

static int has_descriptor(const char *fd_folder, const char *wanted)
{
    char path[2 * PATH_BYTES];
    char link[64];
    int found = 0;
    DIR *folder = opendir(fd_folder);
    if (folder == NULL) return 0; /* another user's, or it has ended */
    for (const struct dirent *entry = readdir(folder); entry != NULL && !found;
         entry = readdir(folder)) {
        (void)snprintf(path, sizeof path, "%s/%s", fd_folder, entry->d_name); /* fits */
        ssize_t size = readlink(path, link, sizeof link - 1);
        if (size < 0) continue;
        link[size] = '\0';
        found = strcmp(link, wanted) == 0;
    }
    (void)closedir(folder);
    return found;
}

static uint32_t find_process(unsigned long inode)
{
    char path[PATH_BYTES];
    char wanted[64];
    uint32_t pid = 0;
    DIR *folder = opendir("/proc");
    if (folder == NULL) return 0;
    (void)snprintf(wanted, sizeof wanted, "socket:[%lu]", inode); /* fits */
    for (const struct dirent *entry = readdir(folder); entry != NULL && pid == 0;
         entry = readdir(folder)) {
        unsigned long number = strtoul(entry->d_name, NULL, 10); /* 0: not a process */
        if (number == 0 || number > INT32_MAX) continue;
        (void)snprintf(path, sizeof path, "/proc/%lu/fd", number); /* fits */
        if (has_descriptor(path, wanted)) pid = (uint32_t)number;
    }
    (void)closedir(folder);
    return pid;
}

/* For people, and anybody may call his program as he likes. */
static void read_name(uint32_t pid, char *out, size_t capacity)
{
    char path[64];
    char name[64] = "";
    struct sn_text text;
    (void)snprintf(path, sizeof path, "/proc/%u/comm", pid); /* fits */
    FILE *file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(name, sizeof name, file) == NULL) name[0] = '\0';
        (void)fclose(file); /* it was only read */
    }
    sn_text_init(&text, out, capacity);
    for (const char *at = name; *at != '\0' && *at != '\n'; at++) {
        sn_text_add(&text, "%c", *at > ' ' && *at <= '~' ? *at : '?');
    }
}

enum sn_err sn_process_port_owner(const struct sn_env *env, uint16_t port, uint32_t *out_pid,
                                  char *out_name, size_t capacity)
{
    SN_ASSERT(env != NULL && out_pid != NULL && out_name != NULL && capacity > 0);
    unsigned long inode = find_inode("/proc/self/net/tcp", port);
    if (inode == 0) inode = find_inode("/proc/self/net/tcp6", port);
    if (inode == 0) return SN_ENOENT;
    uint32_t pid = find_process(inode);
    if (pid == 0) return SN_ENOENT;
    read_name(pid, out_name, capacity);
    *out_pid = pid;
    return SN_OK;
}
