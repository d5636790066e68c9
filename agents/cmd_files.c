/* SPDX-License-Identifier: Apache-2.0 */
/* init, keygen. Guarantees: no file that exists is ever changed; a private key is 0600 from
 * its first byte. */
#include <stdio.h>
#include <string.h>

#include "agents/cli.h"
#include "agents/cli_key.h"
#include "agents/identity.h"
#include "base/alloc.h"
#include "base/text.h"
#include "config/starter.h"
#include "crypto/key.h"

/* --- Keys ------------------------------------------------------------------------------------- */

enum sn_err sn_cli_key_create(struct sn_env *env, const char *path, struct sn_key_id *out_id)
{
    struct sn_key *key = NULL;
    char pem[SN_KEY_PEM_MAX];
    size_t size = 0;
    enum sn_err err = sn_key_new(&key);
    if (err != SN_OK) return err;
    err = sn_key_to_pem(key, pem, sizeof pem, &size);
    if (err == SN_OK) err = sn_env_file_create(env, path, 0600, pem, size);
    if (err == SN_OK) *out_id = sn_key_id(key);
    sn_secret_wipe(pem, sizeof pem);
    sn_key_free(key);
    return err;
}

int sn_cmd_keygen(struct sn_cli *cli)
{
    const char *path = NULL;
    struct sn_key_id id;
    char text[SN_KEY_TEXT_BYTES + 1];
    int count = sn_cli_parse(cli, NULL, 0, &path, 1);
    if (count < 0) return SN_EXIT_USAGE;
    if (count != 1) return sn_cli_usage(cli);
    enum sn_err err = sn_cli_key_create(cli->env, path, &id);
    if (err == SN_EEXIST) {
        sn_cli_error(cli, "%.500s exists already and is left alone; name a new file", path);
    } else if (err == SN_ENOENT) {
        sn_cli_error(cli, "%.500s: there is no such folder", path);
    } else if (err != SN_OK) {
        sn_cli_error(cli, "%.500s: %s", path, sn_file_err_text(err));
    }
    if (err != SN_OK) return SN_EXIT_FAILED;
    sn_key_id_format(&id, text);
    sn_cli_print(cli, "%s\n", text);
    return SN_EXIT_OK;
}

/* --- init ------------------------------------------------------------------------------------- */

enum { INIT_KEY, INIT_PUB, INIT_FLEET, INIT_FILES };

struct init {
    struct sn_cli *cli;
    const char *folder;
    char *paths[INIT_FILES];
    char *fleet; /* text of the starter */
};

static enum sn_err make_paths(struct init *init, const char *mesh)
{
    char name[SN_MESH_BYTES_MAX + sizeof ".yaml"];
    (void)snprintf(name, sizeof name, "%s.yaml", mesh); /* fits: the name was checked */
    const char *const names[INIT_FILES] = {"authority.key", "authority.pub", name};
    for (unsigned i = 0; i < INIT_FILES; i++) {
        init->paths[i] = sn_path_in(init->folder, names[i]);
        if (init->paths[i] == NULL) return SN_ENOMEM;
    }
    return SN_OK;
}

/* Anything that is there, or cannot be looked at, is a reason to write nothing. Returns 0 after a
 * message. */
static int is_clear(struct init *init)
{
    struct sn_file_info info;
    int is_fine = 1;
    for (unsigned i = 0; i < INIT_FILES; i++) {
        enum sn_err err = sn_env_file_info(init->cli->env, init->paths[i], &info);
        if (err == SN_ENOENT) continue;
        is_fine = 0;
        if (err == SN_OK) {
            sn_cli_error(init->cli, "%.500s exists already; nothing was written", init->paths[i]);
        } else {
            sn_cli_error(init->cli, "%.500s: %s", init->paths[i], sn_file_err_text(err));
        }
    }
    return is_fine;
}

/* Writes the files in order; what was written is removed again when one fails. */
static enum sn_err write_files(struct init *init)
{
    struct sn_env *env = init->cli->env;
    struct sn_key_id id = {0};
    char line[SN_KEY_TEXT_BYTES + 2];
    unsigned done = 0;
    enum sn_err err = sn_cli_key_create(env, init->paths[INIT_KEY], &id);
    if (err == SN_OK) {
        done++;
        sn_key_id_format(&id, line);
        line[SN_KEY_TEXT_BYTES] = '\n';
        err = sn_env_file_create(env, init->paths[INIT_PUB], 0644, line, SN_KEY_TEXT_BYTES + 1);
    }
    if (err == SN_OK) {
        done++;
        err = sn_env_file_create(env, init->paths[INIT_FLEET], 0644, init->fleet,
                                 strlen(init->fleet));
    }
    if (err == SN_OK) return SN_OK;
    sn_cli_error(init->cli, "%.500s: %s", init->paths[done], sn_file_err_text(err));
    while (done-- > 0) {
        enum sn_err remove_err = sn_env_file_remove(env, init->paths[done]);
        if (remove_err != SN_OK) {
            sn_cli_error(init->cli, "%.500s is left behind: %s", init->paths[done],
                         sn_file_err_text(remove_err));
        }
    }
    return err;
}

static int run_init(struct init *init, const char *mesh)
{
    enum sn_err err = sn_fleet_starter(mesh, &init->fleet);
    if (err == SN_OK) err = make_paths(init, mesh);
    if (err != SN_OK) {
        sn_cli_error(init->cli, "%s", sn_err_text(err));
        return SN_EXIT_FAILED;
    }
    if (!is_clear(init)) return SN_EXIT_FAILED;
    err = sn_env_folder_make(init->cli->env, init->folder, 0700);
    if (err != SN_OK) {
        sn_cli_error(init->cli, "%.500s: %s", init->folder,
                     err == SN_EEXIST || err == SN_ENOENT ? "a file stands where a folder should be"
                                                          : sn_file_err_text(err));
        return SN_EXIT_FAILED;
    }
    if (write_files(init) != SN_OK) return SN_EXIT_FAILED;
    sn_cli_print(init->cli,
                 "%s  the authority's private key: keep it offline, and keep a copy\n"
                 "%s  its public half\n"
                 "%s  the fleet: edit it, then\n"
                 "  sennit check %s\n  sennit render %s --out %s/agents\n",
                 init->paths[INIT_KEY], init->paths[INIT_PUB], init->paths[INIT_FLEET],
                 init->paths[INIT_FLEET], init->paths[INIT_FLEET], init->folder);
    return SN_EXIT_OK;
}

int sn_cmd_init(struct sn_cli *cli)
{
    struct sn_option mesh = {.name = "--mesh", .takes_value = 1};
    struct init init = {.cli = cli};
    int count = sn_cli_parse(cli, &mesh, 1, &init.folder, 1);
    if (count < 0) return SN_EXIT_USAGE;
    if (count != 1 || !mesh.is_given) return sn_cli_usage(cli);
    if (!sn_label_is_valid(mesh.value, strlen(mesh.value))) {
        sn_cli_error(cli,
                     "a mesh is named by 1 to 63 of a-z, 0-9 and -, no - at either end: %.100s",
                     mesh.value);
        return SN_EXIT_USAGE;
    }
    int status = run_init(&init, mesh.value);
    for (unsigned i = 0; i < INIT_FILES; i++) sn_strfree(init.paths[i]);
    sn_strfree(init.fleet);
    return status;
}

/* --- The authority that a fleet names ---------------------------------------------------------- */

enum sn_err sn_cli_authority_id(struct sn_env *env, const char *path, struct sn_key_id *out_id,
                                int *out_is_private, char *out_text, size_t capacity)
{
    char *data = NULL;
    size_t size = 0;
    struct sn_key *key = NULL;
    enum sn_err err = sn_env_file_read(env, path, SN_KEY_FILE_BYTES_MAX, &data, &size);
    if (err != SN_OK) {
        (void)snprintf(out_text, capacity, "%s: %s", path, sn_file_err_text(err)); /* cut is fine */
        return err;
    }
    size_t line_size = size;
    while (line_size > 0 && memchr("\r\n", data[line_size - 1], 2) != NULL) line_size--;
    int is_private = sn_key_id_parse(data, line_size, out_id) != SN_OK;
    sn_secret_wipe(data, size);
    sn_free(data, size + 1);
    if (is_private) {
        err = sn_identity_read_key(env, path, &key, out_text, capacity);
        if (err == SN_EINVAL) {
            (void)snprintf(out_text, capacity, "%s: neither a private nor a public Ed25519 key",
                           path); /* cut is fine */
        }
        if (err != SN_OK) return err;
        *out_id = sn_key_id(key);
        sn_key_free(key);
    }
    *out_is_private = is_private;
    return SN_OK;
}
