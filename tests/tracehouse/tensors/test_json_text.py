"""JSON of a stranger's: its lists and objects are counted before anything is made of it, and then level by level."""

import pytest

from tracehouse.tensors.json_text import has_more_containers, levels


@pytest.mark.parametrize("text", [b"[]" * 3, b"{}" * 3, b'["[[[", {}, []]', b'["\\"", [], {}]'])
def test_lists_and_objects_are_counted(text: bytes) -> None:
    assert has_more_containers(text, 2)
    assert not has_more_containers(text, 3)


def test_brackets_inside_strings_are_not_counted() -> None:
    assert not has_more_containers(b'["[[[", "{\\"{{", "\\\\"]', 1)


@pytest.mark.parametrize("end", [b"", b"\\"])
def test_a_string_without_an_end_is_gone_through_once(end: bytes) -> None:
    """Each of its quotes tried as its start, this would take hours."""
    assert not has_more_containers(b'"' + b'\\"[' * 2**20 + end, 10)


def test_nested_values_are_visited_level_by_level() -> None:
    value = [{"a": [1, 2], "b": 3}, 4, [{}, [5]]]

    assert list(levels(value)) == [([], [value]), ([value[0]], [value[2]]), ([{}], [[1, 2], [5]])]


def test_the_members_of_an_object_are_a_level_and_plain_values_of_a_list_are_not() -> None:
    assert list(levels({"a": 1})) == [([{"a": 1}], []), ([], [])]
    assert list(levels([1, "a", None])) == [([], [[1, "a", None]])]
