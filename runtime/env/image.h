/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of code: looked at, read and loaded through one descriptor, so that nothing can be put in their place in
 * between. Not part of the seam: a simulation loads no code.
 * Thread-safe: yes, except that one image belongs to one thread at a time. Blocking: yes.
 */
#ifndef SN_ENV_IMAGE_H
#define SN_ENV_IMAGE_H

#include "env/env.h"

#define SN_IMAGE_PATH_BYTES 64

struct sn_image {
    struct sn_file_info info; /* of the file, as it was opened */
    int32_t id;               /* of the descriptor */
};

/* Links are followed. Errors: ENOENT, EPERM, ELOOP, ENOFILES, EIO. */
SN_MUST_CHECK enum sn_err sn_image_open(struct sn_env *env, const char *path,
                                        struct sn_image *out_image);
/* All of it; freed with sn_free(data, size + 1). Errors: EINVAL (not a regular file), ETOOBIG (more than max),
 * EIO, ENOMEM. */
SN_MUST_CHECK enum sn_err sn_image_read(struct sn_env *env, const struct sn_image *image,
                                        size_t max, char **out_data, size_t *out_size);
/* From here on the image is a copy of `bytes` in memory that nobody can change any more, this process included. `name`
 * is what debuggers show. Errors: ENOFILES, ENOMEM, EPERM (the system allows no code in such memory), EIO. */
SN_MUST_CHECK enum sn_err sn_image_seal(struct sn_env *env, struct sn_image *image,
                                        const char *name, const void *bytes, size_t size);
/* The name by which the system's loader, and debuggers, find what the descriptor stands for. The loader remembers
 * names: an image that was loaded must stay open, or the next one may be taken for it. */
void sn_image_path(struct sn_env *env, const struct sn_image *image, char out[SN_IMAGE_PATH_BYTES]);
void sn_image_close(struct sn_env *env, struct sn_image *image);

#endif
