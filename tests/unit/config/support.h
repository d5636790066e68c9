/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of configuration share: editing texts, and comparing findings and models as text.
 */
#ifndef SN_TESTS_UNIT_CONFIG_SUPPORT_H
#define SN_TESTS_UNIT_CONFIG_SUPPORT_H

#include "config/agent_file.h"
#include "config/finding.h"
#include "config/fleet.h"

#define KEY_A "ed25519:d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
#define KEY_B "ed25519:3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c"

/* A good fleet and a good agent file that use every part. */
extern const char fleet_text[];
extern const char agent_text[];

/* One change to a good text, and all findings it must cause, a line each; "" when it stays good. */
struct edit_case {
    const char *from;
    const char *to;
    const char *findings;
};

/* `text` with the first `from` replaced; fails the test when there is none. Freed with free(). */
char *edit(const char *text, const char *from, const char *to);

/* The findings, formatted, a line each. Freed with free(). */
char *findings_text(const struct sn_findings *findings);

/* Everything a model says, as text: two files mean the same when these are equal. Freed with
 * free(). */
char *fleet_dump(const struct sn_fleet *fleet);
char *agent_dump(const struct sn_agent_file *agent);

/* A file of this tree. Freed with free(). */
char *read_source(const char *name);
/* A fleet in a script: $(command) becomes a digest, $variable a path. Freed with free(). */
char *shell_filled(const char *text, size_t size);
/* A shipped example. Freed with free(). */
char *read_example(const char *name);
/* Takes the comment sign from what an example keeps for the reader's own plugins, in place. */
void uncomment(char *text);

#endif
