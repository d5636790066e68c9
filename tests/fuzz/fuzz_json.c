/* SPDX-License-Identifier: Apache-2.0 */
/* JSON both ways: what is accepted comes out as JSON that is accepted again and says the same. */
#include <stdlib.h>
#include <string.h>

#include "wire/json.h"

#define EXPANSION 9u /* of either direction, at most */

static void require(int truth)
{
    if (!truth) abort();
}

/* msgpack to JSON to msgpack to JSON: both texts are equal. */
static void go_round(const uint8_t *bytes, size_t size)
{
    size_t text_capacity = size * EXPANSION + 64;
    char *first_data = malloc(text_capacity);
    char *second_data = malloc(text_capacity);
    size_t pack_capacity = text_capacity * EXPANSION;
    uint8_t *pack_data = malloc(pack_capacity);
    require(first_data != NULL && second_data != NULL && pack_data != NULL);
    struct sn_text first;
    struct sn_text second;
    struct sn_pack pack;
    sn_text_init(&first, first_data, text_capacity);
    sn_text_init(&second, second_data, text_capacity);
    sn_pack_init(&pack, pack_data, pack_capacity);
    enum sn_err err = sn_json_from_msgpack(bytes, size, &first);
    if (err == SN_OK) {
        require(sn_json_to_msgpack(first.data, first.size, &pack) == SN_OK);
        require(sn_json_from_msgpack(pack.data, pack.size, &second) == SN_OK);
        require(first.size == second.size);
        require(memcmp(first.data, second.data, first.size) == 0);
    } else {
        require(first.size == 0 && first.data[0] == '\0' && !first.truncated);
    }
    free(pack_data);
    free(second_data);
    free(first_data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t capacity = size * EXPANSION + 64;
    uint8_t *pack_data = malloc(capacity);
    require(pack_data != NULL);
    struct sn_pack pack;
    sn_pack_init(&pack, pack_data, capacity);
    enum sn_err err = sn_json_to_msgpack((const char *)data, size, &pack);
    require(err == SN_OK || err == SN_EINVAL || err == SN_ETOOBIG);
    if (err == SN_OK) {
        go_round(pack.data, pack.size);
    } else {
        require(pack.size == 0 && !pack.overflow);
    }
    go_round(data, size);
    free(pack_data);
    return 0;
}
