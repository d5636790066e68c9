/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error codes of every fallible function in Sennit.
 *
 * Values are part of the plugin ABI: they are only ever added, never renumbered.
 * Thread-safe: yes (pure functions). Blocking: no.
 */
#ifndef SN_ERR_H
#define SN_ERR_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define SN_MUST_CHECK                   __attribute__((warn_unused_result))
#define SN_PRINTF(fmt_index, arg_index) __attribute__((format(printf, fmt_index, arg_index)))
#define SN_API                          __attribute__((visibility("default")))
#else
#define SN_MUST_CHECK
#define SN_PRINTF(fmt_index, arg_index)
#define SN_API
#endif

enum sn_err {
    SN_OK = 0,
    SN_EINVAL = 1,        /* an argument or input is malformed */
    SN_ENOMEM = 2,        /* memory, or the agent's memory budget, is used up */
    SN_EFULL = 3,         /* a bounded queue or table has no room; nothing was taken */
    SN_EAGAIN = 4,        /* would block; try again after the matching event */
    SN_ENOENT = 5,        /* no such thing */
    SN_EEXIST = 6,        /* it exists already */
    SN_EDENIED = 7,       /* authorization says no */
    SN_ETIMEDOUT = 8,     /* the deadline passed */
    SN_ECLOSED = 9,       /* the other side, or this one, has closed */
    SN_EPROTO = 10,       /* the peer broke the protocol */
    SN_ETOOBIG = 11,      /* longer than the limit */
    SN_EIO = 12,          /* the system refused an I/O operation */
    SN_EEXPIRED = 13,     /* a certificate's not-after has passed */
    SN_ENOTYET = 14,      /* a certificate's not-before has not come */
    SN_EAUTH = 15,        /* a signature, seal or identity does not verify */
    SN_EREPLAY = 16,      /* sequence or epoch was seen before */
    SN_EUNREACHABLE = 17, /* no route, network down */
    SN_ESTATE = 18,       /* not valid in the object's present state */
    SN_EVERSION = 19,     /* version or ABI is not supported */
    SN_ECANCELLED = 20,   /* the caller, or a shutdown, cancelled it */
    SN_EINUSE = 21,       /* the address or lock is held by somebody else */
    SN_ENOSPC = 22,       /* the disk, or a quota on it, is full */
    SN_EPERM = 23,        /* file mode or owner is not acceptable */
    SN_ERESET = 24,       /* the connection was reset */
    SN_EDUPLICATE = 25,   /* another live session holds this identity */
    SN_EUNTRUSTED = 26,   /* no authority or pin vouches for the key */
    SN_EMISMATCH = 27,    /* authentic, but for another mesh, agent or key than expected */
    SN_EREFUSED = 28,     /* the address answers, and nobody listens there */
    SN_ENOFILES = 29,     /* the descriptors of this process, or of the system, are used up */
    SN_EREADONLY = 30,    /* the file system is read-only */
    SN_ELOOP = 31,        /* a symbolic link leads back to itself */
    SN_ERR_COUNT
};

/* Stable lower-case token such as "timed-out"; "unknown-error" for values out of range. Static. */
SN_API const char *sn_err_name(enum sn_err err);

/* One short English phrase for people. Static. */
SN_API const char *sn_err_text(enum sn_err err);

#ifdef __cplusplus
}
#endif
#endif
