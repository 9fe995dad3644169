"""JUnit XML: a check as one test case, which CI systems list beside the project's own tests."""

import re
from dataclasses import dataclass
from typing import Literal
from xml.etree import ElementTree

# What XML 1.0 cannot hold.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


@dataclass(frozen=True)
class Fault:
    """Why a test case did not pass: `failure` if the model is at fault, `error` if nothing was found out."""

    tag: Literal["failure", "error"]
    kind: str
    message: str


@dataclass(frozen=True)
class Case:
    """A test case. `text` is its fault in full, or what it printed if it passed."""

    name: str
    text: str
    seconds: float
    fault: Fault | None = None


def render(suite: str, case: Case) -> bytes:
    """Return the document of one suite with one case."""
    faults = {tag: str(int(case.fault is not None and case.fault.tag == tag)) for tag in ("failure", "error")}
    counts = {"tests": "1", "failures": faults["failure"], "errors": faults["error"], "skipped": "0"}
    times = {"time": f"{case.seconds:.3f}"}
    root = ElementTree.Element("testsuites", counts | times)
    inside = ElementTree.SubElement(root, "testsuite", {"name": suite} | counts | times)
    element = ElementTree.SubElement(inside, "testcase", {"classname": suite, "name": _legal(case.name)} | times)
    if case.fault is None:
        ElementTree.SubElement(element, "system-out").text = _legal(case.text)
    else:
        facts = {"type": case.fault.kind, "message": _legal(case.fault.message)}
        ElementTree.SubElement(element, case.fault.tag, facts).text = _legal(case.text)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _legal(text: str) -> str:
    return _NOT_XML.sub(lambda found: ascii(found[0])[1:-1], text)
