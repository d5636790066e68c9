/* SPDX-License-Identifier: Apache-2.0 */
/* Names, patterns, addresses, numbers, hexadecimal and JSON strings from any bytes. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static void require(int truth)
{
    if (!truth) abort();
}

/* A terminated copy, as configuration hands it to the matching functions. */
static char *copy_of(const char *text, size_t size)
{
    char *copy = malloc(size + 1);
    require(copy != NULL);
    require(sn_text_copy(copy, size + 1, text, size) == SN_OK);
    return copy;
}

static void check_names(const char *text, size_t size)
{
    char *copy = copy_of(text, size);
    int is_agent = sn_agent_name_is_valid(text, size);
    int is_type = sn_type_is_valid(text, size);
    require(!is_agent || (!is_type && size <= SN_AGENT_NAME_BYTES_MAX && strlen(copy) == size));
    require(!is_type || (size <= SN_TYPE_BYTES_MAX && strlen(copy) == size));
    require(!sn_label_is_valid(text, size) || is_type);
    require(!is_agent || sn_agent_pattern_is_valid(text, size));
    require(!is_type || sn_type_pattern_is_valid(text, size));
    if (sn_agent_pattern_is_valid(text, size)) {
        int is_exact = strchr(copy, '*') == NULL;
        require(is_exact == is_agent);
        require(sn_agent_pattern_matches(copy, copy));
        require(sn_agent_pattern_matches(copy, "paris/hub") ==
                (strcmp(copy, "paris/hub") == 0 || strcmp(copy, "paris/*") == 0 ||
                 strcmp(copy, "*") == 0));
    }
    if (sn_type_pattern_is_valid(text, size)) {
        int is_exact = strchr(copy, '*') == NULL;
        require(is_exact == is_type);
        require(sn_type_pattern_matches(copy, "echo.say") ==
                (strcmp(copy, "echo.say") == 0 || strcmp(copy, "echo.*") == 0 ||
                 strcmp(copy, "*") == 0));
    }
    require(sn_text_distance(copy, "paris/hub", 3) == sn_text_distance("paris/hub", copy, 3));
    free(copy);
}

static void check_addr(const char *text, size_t size)
{
    struct sn_addr_parts parts;
    if (sn_addr_split(text, size, &parts) != SN_OK) return;
    require(parts.agent == text && parts.actor + parts.actor_size == text + size);
    require(parts.agent_size + 1 + parts.actor_size == size && text[parts.agent_size] == ':');
    require(parts.agent_size == 0 || sn_agent_name_is_valid(parts.agent, parts.agent_size));
    require(sn_label_is_valid(parts.actor, parts.actor_size));
}

static void check_numbers(const char *text, size_t size)
{
    uint64_t value;
    if (sn_text_to_u64(text, size, UINT64_MAX, &value) == SN_OK) {
        char data[24];
        struct sn_text back;
        sn_text_init(&back, data, sizeof data);
        sn_text_add(&back, "%llu", (unsigned long long)value);
        require(back.size == size && memcmp(data, text, size) == 0);
    }
    uint8_t bytes[32];
    if (size <= 64 && sn_hex_decode(text, size, bytes, size / 2) == SN_OK) {
        char hex[65];
        sn_hex_encode(bytes, size / 2, hex);
        require(strlen(hex) == size);
    }
}

static void check_json(const char *bytes, size_t size)
{
    size_t capacity = 6 * size + 3; /* each byte an escape, the quotes and the NUL */
    char *data = malloc(capacity);
    require(data != NULL);
    struct sn_text text;
    sn_text_init(&text, data, capacity);
    sn_text_add_json(&text, bytes, size);
    require(!text.truncated && strlen(data) == text.size);
    require(sn_utf8_is_valid(data, text.size));
    /* With half of the room it is cut, not overrun. */
    size_t whole = text.size;
    sn_text_init(&text, data, 1 + whole / 2);
    sn_text_add_json(&text, bytes, size);
    require(text.truncated && text.size == whole / 2 && data[text.size] == '\0');
    free(data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    check_names(text, size);
    check_addr(text, size);
    check_numbers(text, size);
    check_json(text, size);
    return 0;
}
