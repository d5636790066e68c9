/* SPDX-License-Identifier: Apache-2.0 */
/* Guarantees: a key that others could have read is never used; the epoch of a boot is on disk before anybody hears
 * of it. */
#include "agents/identity.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/text.h"

char *sn_path_in(const char *folder, const char *name)
{
    if (name[0] == '/' || strcmp(folder, ".") == 0) return sn_strdup(name);
    size_t size = strlen(folder) + 1 + strlen(name) + 1;
    char *path = sn_alloc(size);
    if (path == NULL) return NULL;
    (void)snprintf(path, size, "%s/%s", folder, name); /* fits by construction */
    return path;
}

char *sn_path_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL) return sn_strdup(".");
    if (slash == path) return sn_strdup("/");
    return sn_strndup(path, (size_t)(slash - path));
}

static enum sn_err say(enum sn_err err, char *out_text, size_t capacity, const char *format, ...)
    SN_PRINTF(4, 5);

/* Fills in the text and gives the error back. */
static enum sn_err say(enum sn_err err, char *out_text, size_t capacity, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(out_text, capacity, format, args); /* cut is fine */
    va_end(args);
    return err;
}

const char *sn_file_err_text(enum sn_err err)
{
    switch (err) {
    case SN_ENOENT: return "there is no such file";
    case SN_EINVAL: return "not a regular file";
    case SN_EPERM: return "permission denied";
    case SN_ETOOBIG: return "larger than such a file can be";
    case SN_ESTATE: return "its file system cannot do that";
    default: return sn_err_text(err);
    }
}

static enum sn_err check_key_file(struct sn_env *env, const char *path, char *out_text,
                                  size_t capacity)
{
    struct sn_file_info info;
    enum sn_err err = sn_env_file_info(env, path, &info);
    if (err == SN_OK && !info.is_file) err = SN_EINVAL;
    if (err != SN_OK) return say(err, out_text, capacity, "%s: %s", path, sn_file_err_text(err));
    if (info.uid != sn_env_own_uid(env)) {
        return say(SN_EPERM, out_text, capacity,
                   "%s belongs to another user; make it your own: chown $(id -u) %s", path, path);
    }
    if ((info.mode & 077) != 0) {
        return say(SN_EPERM, out_text, capacity,
                   "%s may be read by others; mend it with: chmod 600 %s", path, path);
    }
    return SN_OK;
}

enum sn_err sn_identity_read_key(struct sn_env *env, const char *path, struct sn_key **out_key,
                                 char *out_text, size_t capacity)
{
    char *pem = NULL;
    size_t size = 0;
    enum sn_err err = check_key_file(env, path, out_text, capacity);
    if (err != SN_OK) return err;
    err = sn_env_file_read(env, path, SN_KEY_FILE_BYTES_MAX, &pem, &size);
    if (err != SN_OK) return say(err, out_text, capacity, "%s: %s", path, sn_file_err_text(err));
    if (size == 0) {
        sn_free(pem, size + 1);
        return say(SN_EINVAL, out_text, capacity,
                   "%s is empty; if it never held a key, remove it and try again: rm %s", path,
                   path);
    }
    err = sn_key_from_pem(pem, size, out_key);
    sn_secret_wipe(pem, size);
    sn_free(pem, size + 1);
    if (err != SN_OK) {
        return say(err, out_text, capacity, "%s: %s", path,
                   "not an Ed25519 private key; make one with: sennit keygen FILE");
    }
    return SN_OK;
}

/* --- Trust ------------------------------------------------------------------------------------------ */

static enum sn_err load_trust(const struct sn_agent_file *file, struct sn_identity *identity)
{
    uint32_t count = sn_config_count(file->authority);
    if (count > 0) {
        identity->authorities = sn_alloc(count * sizeof *identity->authorities);
        if (identity->authorities == NULL) return SN_ENOMEM;
        identity->authority_count = count;
    }
    for (uint32_t i = 0; i < count; i++) {
        const char *text = sn_config_text(sn_config_at(file->authority, i), "");
        enum sn_err err = sn_key_id_parse(text, strlen(text), &identity->authorities[i]);
        if (err != SN_OK) return err;
    }
    if (file->pin_count > 0) {
        identity->pins = sn_alloc(file->pin_count * sizeof *identity->pins);
        if (identity->pins == NULL) return SN_ENOMEM;
        identity->pin_count = file->pin_count;
    }
    for (uint32_t i = 0; i < file->pin_count; i++) {
        struct sn_pin *pin = &identity->pins[i];
        const struct sn_agent_pin *from = &file->pins[i];
        enum sn_err err =
            sn_text_copy(pin->agent, sizeof pin->agent, from->agent, strlen(from->agent));
        if (err == SN_OK) err = sn_key_id_parse(from->key, strlen(from->key), &pin->key);
        if (err != SN_OK) return err;
    }
    return SN_OK;
}

/* --- Certificate -------------------------------------------------------------------------------------- */

static enum sn_err blame_cert(struct sn_identity_fault *fault, enum sn_err err, const char *path,
                              const char *what)
{
    fault->field = "certificate";
    return say(err, fault->text, sizeof fault->text, "%s: %s", path, what);
}

static enum sn_err read_cert(struct sn_env *env, const char *path, struct sn_identity *identity,
                             struct sn_identity_fault *fault)
{
    char *pem = NULL;
    size_t size = 0;
    enum sn_err err = sn_env_file_read(env, path, SN_KEY_FILE_BYTES_MAX, &pem, &size);
    if (err == SN_ENOENT) {
        return blame_cert(fault, err, path, "there is no such file; make it with: sennit render");
    }
    if (err != SN_OK) return blame_cert(fault, err, path, sn_file_err_text(err));
    err = sn_cert_from_pem(pem, size, identity->cert_bytes, sizeof identity->cert_bytes,
                           &identity->cert_size);
    sn_free(pem, size + 1);
    if (err == SN_OK) {
        err = sn_cert_parse(identity->cert_bytes, identity->cert_size, &identity->cert);
    }
    if (err == SN_OK) return SN_OK;
    return blame_cert(fault, err, path, "not an agent certificate; make one with: sennit render");
}

static enum sn_err check_cert(struct sn_env *env, const struct sn_agent_file *file,
                              const char *path, struct sn_identity *identity,
                              struct sn_identity_fault *fault)
{
    struct sn_cert ignored;
    struct sn_trust trust = {.mesh = file->mesh,
                             .authorities = identity->authorities,
                             .authority_count = identity->authority_count};
    if (!sn_key_id_is_equal(&identity->cert.node, &identity->id)) {
        return blame_cert(fault, SN_EMISMATCH, path,
                          "it was made for another node key than the one in `key:`; put that key "
                          "back, or render this agent anew");
    }
    if (strcmp(identity->cert.agent, file->agent) != 0) {
        fault->field = "certificate";
        return say(SN_EMISMATCH, fault->text, sizeof fault->text, "%s: it names another agent, %s",
                   path, identity->cert.agent);
    }
    enum sn_err err = sn_cert_verify(identity->cert_bytes, identity->cert_size, &trust,
                                     sn_env_wall_ms(env) / 1000, &ignored);
    if (err == SN_OK) return SN_OK;
    const char *what = strcmp(identity->cert.mesh, file->mesh) != 0 ? "it is for another mesh"
                       : err == SN_EUNTRUSTED ? "none of `authority` signed it"
                                              : sn_err_text(err);
    fault->field = "certificate";
    (void)say(err, fault->text, sizeof fault->text, "%s: %s; peers will refuse this agent", path,
              what); /* a warning: not this agent's to judge */
    return SN_OK;
}

static enum sn_err load_cert(struct sn_env *env, const struct sn_agent_file *file,
                             const char *folder, struct sn_identity *identity,
                             struct sn_identity_fault *fault)
{
    if (file->certificate == NULL) return SN_OK;
    char *path = sn_path_in(folder, file->certificate);
    if (path == NULL) return SN_ENOMEM;
    enum sn_err err = read_cert(env, path, identity, fault);
    if (err == SN_OK) err = check_cert(env, file, path, identity, fault);
    sn_strfree(path);
    return err;
}

/* --- Both --------------------------------------------------------------------------------------------- */

static enum sn_err load_key(struct sn_env *env, const struct sn_agent_file *file,
                            const char *folder, struct sn_identity *identity,
                            struct sn_identity_fault *fault)
{
    char *path = sn_path_in(folder, file->key);
    if (path == NULL) return SN_ENOMEM;
    enum sn_err err =
        sn_identity_read_key(env, path, &identity->key, fault->text, sizeof fault->text);
    if (err == SN_ENOENT) {
        (void)say(err, fault->text, sizeof fault->text,
                  "%s: %s; make it on this machine with `sennit keygen %s`, put the key that it "
                  "prints into the fleet as this agent's `key:`, and render again",
                  path, sn_file_err_text(err), path); /* the error is returned below */
    }
    if (err != SN_OK && err != SN_ENOMEM) fault->field = "key";
    sn_strfree(path);
    return err;
}

enum sn_err sn_identity_load(struct sn_env *env, const struct sn_agent_file *file,
                             const char *folder, struct sn_identity *out_identity,
                             struct sn_identity_fault *out_fault)
{
    struct sn_identity identity = {0};
    struct sn_identity_fault *fault = out_fault;
    *fault = (struct sn_identity_fault){0};
    enum sn_err err = load_key(env, file, folder, &identity, fault);
    if (err != SN_OK) goto out;
    identity.id = sn_key_id(identity.key);
    err = load_trust(file, &identity);
    if (err != SN_OK) goto out;
    err = load_cert(env, file, folder, &identity, fault);
    if (err != SN_OK) goto out;
    err = sn_tls_identity_new(identity.key, identity.cert_size > 0 ? identity.cert_bytes : NULL,
                              identity.cert_size, &identity.tls);
    if (err != SN_OK) goto out;
    err = sn_boot_key_new(&identity.boot_key);
    if (err != SN_OK) goto out;
    *out_identity = identity;
    return SN_OK;
out:
    if (fault->text[0] == '\0') {
        (void)say(err, fault->text, sizeof fault->text, "the identity cannot be loaded: %s",
                  sn_err_text(err)); /* the error is returned below */
    }
    sn_identity_free(&identity);
    return err;
}

void sn_identity_renew(struct sn_identity *identity, struct sn_identity *fresh)
{
    struct sn_identity former = *identity;
    SN_ASSERT(sn_key_id_is_equal(&identity->id, &fresh->id));
    identity->tls = fresh->tls;
    identity->cert = fresh->cert;
    identity->cert_size = fresh->cert_size;
    memcpy(identity->cert_bytes, fresh->cert_bytes, sizeof identity->cert_bytes);
    fresh->tls = former.tls;
    fresh->cert = former.cert;
    fresh->cert_size = former.cert_size;
    memcpy(fresh->cert_bytes, former.cert_bytes, sizeof fresh->cert_bytes);
}

void sn_identity_free(struct sn_identity *identity)
{
    sn_boot_key_free(identity->boot_key);
    sn_tls_identity_free(identity->tls);
    sn_free(identity->authorities, identity->authority_count * sizeof *identity->authorities);
    sn_free(identity->pins, identity->pin_count * sizeof *identity->pins);
    sn_key_free(identity->key);
    *identity = (struct sn_identity){0};
}

/* --- Epoch ------------------------------------------------------------------------------------------------ */

static enum sn_err read_epoch(struct sn_env *env, const char *path, uint64_t *out_epoch)
{
    char *text = NULL;
    size_t size = 0;
    enum sn_err err = sn_env_file_read(env, path, 64, &text, &size);
    if (err == SN_ENOENT) {
        *out_epoch = 0;
        return SN_OK;
    }
    if (err != SN_OK) return err;
    size_t digits = size > 0 && text[size - 1] == '\n' ? size - 1 : size;
    err = sn_text_to_u64(text, digits, INT64_MAX - 1, out_epoch);
    sn_free(text, size + 1);
    return err;
}

enum sn_err sn_identity_next_epoch(struct sn_env *env, const char *data_folder, uint64_t *out_epoch,
                                   char *out_text, size_t capacity)
{
    uint64_t stored = 0;
    char line[32];
    char *path = sn_path_in(data_folder, "epoch");
    if (path == NULL) return SN_ENOMEM;
    enum sn_err err = read_epoch(env, path, &stored);
    if (err != SN_OK) {
        int is_content = err == SN_EINVAL || err == SN_ETOOBIG;
        (void)say(err, out_text, capacity, "%s: %s", path,
                  is_content
                      ? "not a number; restore it or write the last epoch the peers have seen"
                      : sn_file_err_text(err));
        sn_strfree(path);
        return err;
    }
    int64_t wall_ms = sn_env_wall_ms(env);
    uint64_t epoch = stored + 1;
    if (wall_ms > 0 && (uint64_t)wall_ms > epoch) epoch = (uint64_t)wall_ms;
    int size = snprintf(line, sizeof line, "%llu\n", (unsigned long long)epoch);
    SN_ASSERT(size > 0 && (size_t)size < sizeof line);
    err = sn_env_file_replace(env, path, 0600, line, (size_t)size);
    if (err != SN_OK) (void)say(err, out_text, capacity, "%s: %s", path, sn_file_err_text(err));
    sn_strfree(path);
    if (err == SN_OK) *out_epoch = epoch;
    return err;
}
