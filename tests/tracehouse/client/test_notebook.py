"""What a notebook shows of a trace."""

from typing import Any

from tracehouse.client.notebook import page_of
from tracehouse.client.results import Result
from tracehouse.client.submission import Submission

SUBMISSION = Submission(
    name="Net",
    source={},
    texts={"net.py": "a\nb\n<b>line</b>\nd\ne\nf\n"},
    notes=["a lock was replaced"],
    packages=["timm 1.0"],
)
REQUEST = {"id": "1", "state": "running", "stage": "tracing", "progress": 0.25, "problem": None}
CAUSE = {
    "kind": "baked-value", "detail": "a branch", "file": "net.py", "line": 3, "source": "<b>line</b>",
    "effect": "harmful", "remedy": "write `torch.where`",
}  # fmt: skip


def result_of(*findings: dict[str, Any]) -> Result:
    artifact = {"digest": "sha256:0", "verdict_sentence": "rejected", "contract": {"methods": {}}}
    request = REQUEST | {"state": "succeeded", "verdict": "rejected", "model": None, "findings": [*findings]}
    return Result(request, [artifact])


def test_verdict_cause_line_and_remedy_come_first() -> None:
    harmless = {"kind": "ambient-read", "detail": "harmless", "effect": "harmless"}
    page = page_of({}, SUBMISSION, result_of(harmless, CAUSE), "def forward", "http://service")

    assert page.index(">rejected<") < page.index("a branch") < page.index("<code>torch.where</code>")
    assert page.index("torch.where") < page.index("<details><summary>Traced code</summary>")
    assert "&lt;b&gt;line&lt;/b&gt;</span>" in page
    assert "<b>line</b>" not in page
    assert "1 more finding: the report has all of them" in page
    assert 'href="http://service/artifacts/sha256:0/report"' in page


def test_a_cause_and_what_is_seen_of_it_share_a_card() -> None:
    seen = CAUSE | {"kind": "output-differs", "detail": "0 and not 1", "remedy": "another"}
    page = page_of({}, SUBMISSION, result_of(CAUSE, seen), None, "http://service")

    assert (page.count("What to do"), page.count("&lt;b&gt;line"), page.count("Seen: 0 and not 1")) == (1, 1, 1)
    assert "more finding" not in page


def test_lines_are_counted_as_python_counts_them() -> None:
    sent = Submission(name="Net", source={}, texts={"net.py": "a\x0c\u2028\r\nb\rthis one\nd\n"})
    page = page_of({}, sent, result_of(CAUSE), None, "http://service")

    assert ">    3  this one</span>" in page


def test_what_was_left_behind_and_what_is_needed_are_shown() -> None:
    page = page_of(REQUEST, SUBMISSION, None, None, "http://service")

    assert "stage tracing, 25%" in page
    assert "a lock was replaced" in page
    assert "The service needs timm 1.0." in page


def test_a_failed_trace_shows_its_problem() -> None:
    failed = REQUEST | {
        "state": "failed",
        "problem": {"title": "It raised", "code": "model-raised", "remedy": "mend it"},
    }
    page = page_of(failed, SUBMISSION, None, None, "http://service")

    assert "The trace failed" in page
    assert "It raised (model-raised)\n  What to do: mend it" in page
