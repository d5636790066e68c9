/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON (RFC 8259) from msgpack and back, for people and scripts at the edge; nothing inside speaks
 * JSON. Binary values become text when they are UTF-8, else lower-case hexadecimal. Nesting is at
 * most SN_MSGPACK_DEPTH_MAX. Thread-safe: yes. Blocking: no.
 */
#ifndef SN_WIRE_JSON_H
#define SN_WIRE_JSON_H

#include "base/text.h"
#include "sennit/err.h"
#include "wire/pack.h"

/* Appends one msgpack value. Errors: EINVAL, ETOOBIG (the text is full, or nested too deep). */
SN_MUST_CHECK enum sn_err sn_json_from_msgpack(const void *bytes, size_t size,
                                               struct sn_text *text);

/* Packs one JSON value. Numbers with a fraction or exponent become doubles. Errors: EINVAL, ETOOBIG
 * (see pack too). */
SN_MUST_CHECK enum sn_err sn_json_to_msgpack(const char *text, size_t size, struct sn_pack *pack);

#endif
