/* SPDX-License-Identifier: Apache-2.0 */
/* init, keygen. Guarantees: no file that exists is ever changed; a private key is 0600 from
 * its first byte, and there whole or not at all, whenever the command is killed. */
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
    if (path[0] == '\0') {
        sn_cli_error(cli, "the name of the file is empty");
        return SN_EXIT_USAGE;
    }
    enum sn_err err = sn_cli_key_create(cli->env, path, &id);
    if (err == SN_EEXIST) {
        sn_cli_error(cli, "%.500s exists already and is left alone; name a new file", path);
    } else if (err == SN_ENOENT) {
        sn_cli_error(cli, "%.500s: there is no such folder", path);
    } else if (err == SN_EINVAL) {
        sn_cli_error(cli, "%.500s does not name a file", path);
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
    char *fleet;    /* text of the starter */
    int is_resumed; /* a former init was cut short: its key is kept */
    int has_pub;    /* and its public half */
    struct sn_key_id id;
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

/* 1 or 0 when the file is there or not, -1 after a message. */
static int is_there(struct init *init, const char *path)
{
    struct sn_file_info info;
    enum sn_err err = sn_env_file_info(init->cli->env, path, &info);
    if (err == SN_OK) return 1;
    if (err == SN_ENOENT) return 0;
    sn_cli_error(init->cli, "%.500s: %s", path, sn_file_err_text(err));
    return -1;
}

static int note_fleet(void *arg, const char *name)
{
    static const char suffix[] = ".yaml";
    size_t size = strlen(name);
    int *has_fleet = arg;
    if (size < sizeof suffix || strcmp(name + size - (sizeof suffix - 1), suffix) != 0) return 0;
    *has_fleet = 1;
    return 1;
}

/* Whether what is there is the beginning of an init that was cut short: its files come in a known order, the fleet
 * last. Then it is completed with the key that is there. With another fleet it is that one's authority. */
static int is_cut_short(struct init *init, const int there[INIT_FILES])
{
    int has_fleet = 0;
    struct sn_key *key = NULL;
    char text[SN_IDENTITY_TEXT_MAX] = "";
    if (!there[INIT_KEY] || there[INIT_FLEET]) return 0;
    enum sn_err err = sn_env_folder_list(init->cli->env, init->folder, note_fleet, &has_fleet);
    if (err != SN_OK || has_fleet) return 0;
    err = sn_identity_read_key(init->cli->env, init->paths[INIT_KEY], &key, text, sizeof text);
    if (err != SN_OK) {
        sn_cli_error(init->cli, "%s", text);
        return 0;
    }
    init->id = sn_key_id(key);
    sn_key_free(key);
    return 1;
}

/* Looks at what is there; whatever cannot be looked at is a reason to write nothing. Returns 0 after a message. */
static int is_clear(struct init *init)
{
    int there[INIT_FILES];
    for (unsigned i = 0; i < INIT_FILES; i++) {
        there[i] = is_there(init, init->paths[i]);
        if (there[i] < 0) return 0;
    }
    init->is_resumed = is_cut_short(init, there);
    if (init->is_resumed) {
        init->has_pub = there[INIT_PUB];
        return 1;
    }
    int is_fine = 1;
    for (unsigned i = 0; i < INIT_FILES; i++) {
        if (there[i] == 0) continue;
        sn_cli_error(init->cli, "%.500s exists already; nothing was written", init->paths[i]);
        is_fine = 0;
    }
    return is_fine;
}

static enum sn_err write_pub(struct init *init)
{
    char line[SN_KEY_TEXT_BYTES + 2];
    if (init->has_pub) return SN_OK;
    sn_key_id_format(&init->id, line);
    line[SN_KEY_TEXT_BYTES] = '\n';
    return sn_env_file_create(init->cli->env, init->paths[INIT_PUB], 0644, line,
                              SN_KEY_TEXT_BYTES + 1);
}

static void take_back(struct init *init, unsigned done)
{
    while (done-- > 0) {
        if ((done == INIT_KEY && init->is_resumed) || (done == INIT_PUB && init->has_pub)) continue;
        enum sn_err err = sn_env_file_remove(init->cli->env, init->paths[done]);
        if (err == SN_OK) continue;
        sn_cli_error(init->cli, "%.500s is left behind: %s", init->paths[done],
                     sn_file_err_text(err));
    }
}

/* Writes the files in order, the fleet last; what was written is removed again when one fails. */
static enum sn_err write_files(struct init *init)
{
    struct sn_env *env = init->cli->env;
    unsigned done = 0;
    enum sn_err err = SN_OK;
    if (!init->is_resumed) err = sn_cli_key_create(env, init->paths[INIT_KEY], &init->id);
    if (err == SN_OK) {
        done++;
        err = write_pub(init);
    }
    if (err == SN_OK) {
        done++;
        err = sn_env_file_create(env, init->paths[INIT_FLEET], 0644, init->fleet,
                                 strlen(init->fleet));
    }
    if (err == SN_OK) return SN_OK;
    sn_cli_error(init->cli, "%.500s: %s", init->paths[done], sn_file_err_text(err));
    take_back(init, done);
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
    if (init->is_resumed) {
        sn_cli_print(init->cli, "an earlier init was cut short here; its key is kept\n");
    }
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
    if (init.folder[0] == '\0') {
        sn_cli_error(cli, "the name of the folder is empty");
        return SN_EXIT_USAGE;
    }
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
