/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/list.h"
#include "unit/panic.h"

struct thing {
    char name;
    struct sn_list node;
};

static char name_of(const struct sn_list *node)
{
    return ((const struct thing *)(const void *)((const char *)node - offsetof(struct thing, node)))
        ->name;
}

/* Compares forwards and backwards. */
static void expect_names(struct sn_list *head, const char *names)
{
    size_t count = 0;
    SN_LIST_EACH (it, head) {
        assert_int_equal(name_of(it), names[count]);
        assert_ptr_equal(it->next->prev, it);
        count++;
    }
    assert_int_equal(names[count], '\0');
    for (struct sn_list *it = head->prev; it != head; it = it->prev) {
        assert_int_equal(name_of(it), names[--count]);
    }
    assert_int_equal(sn_list_is_empty(head), names[0] == '\0');
}

static void order_is_kept(void **state)
{
    (void)state;
    struct sn_list head;
    struct thing a = {.name = 'a'}, b = {.name = 'b'}, c = {.name = 'c'};
    sn_list_init(&head);
    expect_names(&head, "");
    assert_null(sn_list_first(&head));
    assert_null(sn_list_pop(&head));
    sn_list_push(&head, &b.node);
    sn_list_push(&head, &c.node);
    sn_list_push_front(&head, &a.node);
    expect_names(&head, "abc");
    assert_true(sn_list_is_linked(&b.node));
    assert_ptr_equal(SN_CONTAINER_OF(sn_list_first(&head), struct thing, node), &a);
    sn_list_remove(&b.node);
    sn_list_remove(&b.node);
    assert_false(sn_list_is_linked(&b.node));
    expect_names(&head, "ac");
    sn_list_push(&head, &b.node);
    expect_names(&head, "acb");
    assert_int_equal(name_of(sn_list_pop(&head)), 'a');
    assert_int_equal(name_of(sn_list_pop(&head)), 'c');
    assert_int_equal(name_of(sn_list_pop(&head)), 'b');
    expect_names(&head, "");
}

static void splice_moves_everything(void **state)
{
    (void)state;
    struct sn_list to, from;
    struct thing a = {.name = 'a'}, b = {.name = 'b'}, c = {.name = 'c'}, d = {.name = 'd'};
    sn_list_init(&to);
    sn_list_init(&from);
    sn_list_splice(&to, &from);
    expect_names(&to, "");
    sn_list_push(&from, &a.node);
    sn_list_push(&from, &b.node);
    sn_list_splice(&to, &from);
    expect_names(&to, "ab");
    expect_names(&from, "");
    sn_list_push(&from, &c.node);
    sn_list_push(&from, &d.node);
    sn_list_splice(&to, &from);
    expect_names(&to, "abcd");
    expect_names(&from, "");
    sn_list_splice(&to, &from);
    expect_names(&to, "abcd");
}

static void the_safe_loop_allows_removal(void **state)
{
    (void)state;
    struct sn_list head;
    struct thing things[4] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}, {.name = 'd'}};
    sn_list_init(&head);
    for (size_t i = 0; i < 4; i++) sn_list_push(&head, &things[i].node);
    SN_LIST_EACH_SAFE (it, &head) {
        if (name_of(it) % 2 == 0) sn_list_remove(it);
    }
    expect_names(&head, "ac");
    SN_LIST_EACH_SAFE (it, &head) sn_list_remove(it);
    expect_names(&head, "");
}

static void pushing_twice_panics(void **state)
{
    (void)state;
    struct sn_list head;
    struct thing a = {.name = 'a'};
    sn_list_init(&head);
    sn_list_push(&head, &a.node);
    expect_assert_failure(sn_list_push(&head, &a.node));
    expect_assert_failure(sn_list_push_front(&head, &a.node));
    expect_names(&head, "a");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_kept),
        cmocka_unit_test(splice_moves_everything),
        cmocka_unit_test(the_safe_loop_allows_removal),
        cmocka_unit_test(pushing_twice_panics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
