/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks any tree, or a part of one, against a table of sn_config_field, and prints a table as
 * reference. Thread-safe: yes. Blocking: no.
 */
#ifndef SN_CONFIG_SCHEMA_H
#define SN_CONFIG_SCHEMA_H

#include "config/finding.h"
#include "config/tree.h"
#include "sennit/config.h"

/* PATTERN: may also name those with a role, as role:NAME. In tables of the program only: no flag of
 * the plugin ABI has this bit. */
#define SN_CONFIG_ROLES 0x10000u

/* NAME of a pattern role:NAME, else NULL. */
const char *sn_config_role_of(const char *pattern);

/* A rule about an actor that no rule opens (mesh/access.h): adds a finding at `node`. */
void sni_access_check_actor(const struct sn_config_node *node, const char *actor,
                            struct sn_findings *findings);

/* `node` must be a mapping with the keys of `fields`. Findings carry the full path from the root of
 * the file, so a plugin's part is checked the same way as a whole file. Errors: EINVAL (findings
 * were added), ENOMEM. After SN_OK the accessors with `fields` cannot fail. */
SN_MUST_CHECK enum sn_err sn_schema_check(const struct sn_config_node *node,
                                          const struct sn_config_field *fields,
                                          struct sn_findings *findings);

/* Markdown: a heading and a table of all keys with type, default and meaning. The caller frees the
 * text with sn_strfree. Errors: ENOMEM. */
SN_MUST_CHECK enum sn_err sn_schema_reference(const char *title,
                                              const struct sn_config_field *fields,
                                              char **out_text);

/* Public key as text: ed25519:<64 hexadecimal digits>. */
int sn_config_key_text_is_valid(const char *text);

#endif
