"""JSON of a stranger's: its lists and objects are counted before anything is made of it, and then level by level."""

import pytest

from tracehouse.tensors.json_text import RepeatedMember, find_repeated_member, has_more, levels


@pytest.mark.parametrize("text", [b"[]" * 3, b"{}" * 3, b'["[[[", {}, []]', b'["\\"", [], {}]'])
def test_lists_and_objects_are_counted(text: bytes) -> None:
    assert has_more(text, b"[{", 2)
    assert not has_more(text, b"[{", 3)


def test_brackets_inside_strings_are_not_counted() -> None:
    assert not has_more(b'["[[[", "{\\"{{", "\\\\"]', b"[{", 1)


@pytest.mark.parametrize("end", [b"", b"\\"])
def test_a_string_without_an_end_is_gone_through_once(end: bytes) -> None:
    """Each of its quotes tried as its start, this would take hours."""
    assert not has_more(b'"' + b'\\"[' * 2**20 + end, b"[{", 10)


def test_nested_values_are_visited_level_by_level() -> None:
    value = [{"a": [1, 2], "b": 3}, 4, [{}, [5]]]

    assert list(levels(value)) == [([], [value]), ([value[0]], [value[2]]), ([{}], [[1, 2], [5]])]


def test_plain_values_are_no_level_of_their_own() -> None:
    assert list(levels({"a": 1})) == [([{"a": 1}], [])]
    assert list(levels([1, "a", None])) == [([], [[1, "a", None]])]
    assert list(levels("a")) == []


@pytest.mark.parametrize(
    ("text", "members", "repeated"),
    [
        (b'{"a": 1, "a": 2}', 1, RepeatedMember("a", 9)),
        (b'[{"a": {"b": 1}, "c": ["a:{"]}, {"a": 1, "\\u0061": 2}]', 4, RepeatedMember("a", 41)),
        (b'{"\\"": 1, "x\\\\": 2, "\\u0022": 3}', 2, RepeatedMember('"', 20)),
        (b'{"a": {"a": {"a": 1}}}', 3, None),
        (b'[{"a": ":"}, {"a": "\\":\\\\"}]', 2, None),
        (b'"a:a:"', 0, None),
    ],
)
def test_a_member_that_stands_twice_in_one_object_is_found(
    text: bytes, members: int, repeated: RepeatedMember | None
) -> None:
    assert find_repeated_member(text, members) == repeated
