"""A head that comes again with another body's length, and what is none."""

from typing import Any

import pytest

from service.api.http.repeated_head import RepeatedHead

HEAD = b"POST /infer/net HTTP/1.1\r\nHost: here\r\nContent-Length: %b\r\nAccept: */*\r\n\r\n"


class Plain:
    """A head whose requests may have up to 20 bytes."""

    def takes(self, body_bytes: int) -> bool:
        return body_bytes <= 20

    def request(self, *_: Any) -> Any:
        raise AssertionError("nothing is asked here")


def remembered(sent: bytes) -> RepeatedHead:
    found = RepeatedHead.of(sent, Plain())
    assert found is not None
    return found


@pytest.mark.parametrize(("length", "body"), [(b"3", b"abc"), (b"0", b""), (b"12", b"a" * 12), (b"003", b"abc")])
def test_a_request_with_the_same_head_has_its_own_body(length: bytes, body: bytes) -> None:
    assert remembered(HEAD % b"7" + b"another").body_of(HEAD % length + body) == body


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(HEAD % b"3" + b"ab", id="less than its body"),
        pytest.param(HEAD % b"3" + b"abcd", id="more than its body"),
        pytest.param(HEAD % b"3", id="the head alone"),
        pytest.param(HEAD % b"21" + b"a" * 21, id="a body that is too long"),
        pytest.param(HEAD % b"" + b"", id="no length"),
        pytest.param(HEAD % b"+3" + b"abc", id="a sign"),
        pytest.param(HEAD % b" 3" + b"abc", id="one more space"),
        pytest.param(HEAD % b"3 " + b"abc", id="a space behind it"),
        pytest.param(HEAD % b"\xb23" + b"abc", id="no digit of ASCII"),
        pytest.param(HEAD % b"0000000003" + b"abc", id="too many digits"),
        pytest.param(HEAD % b"3\r\nExpect: 100-continue" + b"abc", id="another header"),
        pytest.param((HEAD % b"3").replace(b"here", b"there") + b"abc", id="another host"),
        pytest.param((HEAD % b"3").replace(b"Accept", b"accept") + b"abc", id="another case"),
        pytest.param(b"\r\n" + HEAD % b"3" + b"abc", id="an empty line before it"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_anything_else_is_parsed(sent: bytes) -> None:
    assert remembered(HEAD % b"7" + b"another").body_of(sent) is None


@pytest.mark.parametrize(
    ("sent", "is_alone"),
    [
        pytest.param(HEAD % b"3", True, id="the head alone"),
        pytest.param(HEAD % b"3" + b"a", False, id="a part of its body"),
        pytest.param((HEAD % b"3")[:-1], False, id="a part of the head"),
        pytest.param(HEAD % b"0", False, id="a request that is whole"),
        pytest.param(HEAD % b"21", False, id="a body that is too long"),
        pytest.param((HEAD % b"3").replace(b"here", b"there"), False, id="another head"),
    ],
)
def test_a_head_whose_body_is_to_follow(sent: bytes, *, is_alone: bool) -> None:
    assert remembered(HEAD % b"7" + b"another").is_alone(sent) is is_alone


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param((HEAD % b"3")[:-2], id="a head that is not whole"),
        pytest.param((HEAD % b"3").replace(b"*/*", b"*" * 4096), id="a long head"),
        pytest.param((HEAD % b"3").replace(b"Content-Length: 3\r\n", b""), id="no length"),
    ],
)
def test_a_head_that_is_not_remembered(sent: bytes) -> None:
    assert RepeatedHead.of(sent, Plain()) is None


def test_a_length_in_the_body_is_none_of_the_head() -> None:
    sent = (HEAD % b"3").replace(b"Content-Length: 3\r\n", b"") + b"\r\nContent-Length: 3\r\n\r\n"
    assert RepeatedHead.of(sent, Plain()) is None
