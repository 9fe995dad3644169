"""JUnit XML of a check: one test case, which passed, failed or could not be run."""

from xml.etree import ElementTree

import pytest

from tracehouse.report import junit
from tracehouse.report.junit import Case, Fault


def parse(case: Case) -> ElementTree.Element:
    root = ElementTree.fromstring(junit.render("tracehouse check", case))
    suite = root.find("testsuite")
    assert suite is not None
    return suite


def test_a_case_that_passed_has_its_text_as_output() -> None:
    suite = parse(Case("net.py:Net", "verdict: verified", 1.25))

    assert (suite.get("tests"), suite.get("failures"), suite.get("errors"), suite.get("time")) == (
        "1",
        "0",
        "0",
        "1.250",
    )
    case = suite.find("testcase")
    assert case is not None
    assert (case.get("name"), case.findtext("system-out")) == ("net.py:Net", "verdict: verified")


@pytest.mark.parametrize(("tag", "counted"), [("failure", ("1", "0")), ("error", ("0", "1"))])
def test_a_fault_is_counted_and_has_message_and_text(tag: str, counted: tuple[str, str]) -> None:
    fault = Fault(tag, "rejected", "a branch <on> values")  # type: ignore[arg-type]
    suite = parse(Case("net.py:Net", "line & remedy", 1.0, fault))

    assert (suite.get("failures"), suite.get("errors")) == counted
    found = suite.find(f"testcase/{tag}")
    assert found is not None
    assert (found.get("type"), found.get("message"), found.text) == (
        "rejected", "a branch <on> values", "line & remedy"
    )  # fmt: skip


def test_characters_that_xml_cannot_hold_are_escaped() -> None:
    suite = parse(Case("net.py:Net", "a\x1b[2J\x00\ud800é", 1.0))

    assert suite.findtext("testcase/system-out") == "a\\x1b[2J\\x00\\ud800é"
