"""What the command says of a server whose answers have the members of a service, but not their types, or never end."""

import io
import re
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from click.testing import CliRunner, Result
from typer.main import get_command

from service.cli import app
from tests.damaged_documents import damaged, put

COMMAND = get_command(app)
ADDRESS = "http://somebody-else:8000"
ID = "0" * 32
TENSOR = {
    "name": "x", "datatype": "FP32", "datatypes": ["FP32", "FP64"], "shape": ["batch", 2], "example": [3, 2],
    "fixed": {"1": "trace"},
}  # fmt: skip
RANKS = {
    "inputs": [TENSOR], "outputs": [{"name": "output", "datatype": "FP32", "datatype_of": "x", "shape": ["batch"]}],
    "regions": [{"spans": {"batch": [{"low": 1, "high": 4}]}, "basis": "proven", "beyond": {"batch": 9}}],
    "memory": {"bytes": [{"times": 8, "powers": {"batch": 1}}], "elements": []},
}  # fmt: skip
METHOD = {
    **RANKS, "arguments": [{"name": "x", "structure": {"tensor": "x"}}], "returns": {"tensor": "output"},
    "other_ranks": [{**RANKS, "inputs": [TENSOR | {"shape": ["batch"], "example": [3], "fixed": {}}]}],
    "stochastic": False,
}  # fmt: skip
CONTRACT = {"methods": {"forward": METHOD}, "open": True}
CHECK = {
    "findings": [{"kind": "branch", "detail": "a branch", "line": 3}],
    "comparisons": [
        {"method": "forward", "case": "example", "in_contract": True, "agrees": True, "outcome": "limited"},
    ],
    "coverage": [{"method": "forward", "requested": 2, "covered": 1, "missing": {"batch": 2}, "reason": "no"}],
    "layers": [{"name": "probe", "method": "forward", "left_out": ["large ones"], "is_cut": True}],
    "memory": {"left_out": ["huge ones"]},
}  # fmt: skip
ARTIFACT = {
    "digest": "sha256:1", "device": "cpu", "bucket": {"batch": 2}, "verdict_sentence": "rejected", "form": "traced",
    "versions": {"tracehouse": "1"}, "contract": CONTRACT, "check": CHECK, "freeze": True,
    "optimize_for_inference": False, "exportability": {"note": "ready"},
    "attempts": [{"way": "trace", "verdict": "rejected", "kept": True}],
    "counterexamples": [
        {"method": "forward", "output": "output", "difference": "2, not 1", "inputs": [TENSOR],
         "arrays": {"byte_size": 9}},
    ],
    "links": {"printouts": "/printouts", "report": "/report"},
}  # fmt: skip
FINDING = {"kind": "branch", "effect": "harmful", "detail": "it", "remedy": "do `mode`", "file": "n.py", "line": 3}
TRACE = {
    "id": ID, "state": "succeeded", "stage": "done", "progress": 1.0, "verdict": "rejected", "findings": [FINDING],
    "model_name": "net", "model": {"name": "net", "version": 2}, "promotion": {"promoted": False, "reason": "so"},
    "artifacts": [{"device": "cpu", "digest": "sha256:1"}], "problem": None, "waiting": None, "pool": "cpu",
    "created_at": "2026-01-01T00:00:00Z", "links": {"log": "/log", "outputs": None},
}  # fmt: skip
VERSION = {
    "version": 1, "verdict": "verified", "artifacts": {"cpu": "sha256:1"}, "buckets": [], "created_at": "2026",
    "links": {"trace_request": f"/trace/{ID}"},
}  # fmt: skip
MODEL = {
    "name": "net", "default_version": 1, "versions": [VERSION], "aliases": [{"alias": "prod", "version": 1}],
    "bitwise": True, "idle_s": 600.0, "pinned": True, "threads": 4, "replicas": 2,
}  # fmt: skip
REPLIES: dict[str, Any] = {
    f"GET /trace/{ID}": TRACE,
    "GET /trace": {"trace_requests": [TRACE], "next_cursor": None},
    "POST /trace": TRACE,
    "GET /artifacts/sha256:1": ARTIFACT,
    "GET /artifacts/sha256:1/graph": {"kind": "graph", "method": "forward", "submodule": "", "text": "graph"},
    "GET /printouts/graph": {"kind": "graph"},
    "GET /models": {"models": [MODEL], "next_cursor": None},
    "GET /models/net": MODEL,
    "PATCH /models/net": MODEL,
    "POST /models/net/promote": {"previous_version": None, "default_version": 1},
    "GET /models/net/aliases/prod": {"version": 1, "etag": '"1"'},
    "PUT /models/net/aliases/prod": {"version": 1, "etag": '"2"'},
    "POST /infer/net": {"outputs": []},
}
PROBLEM = {
    "title": "No", "code": "no", "detail": "no", "errors": [{"pointer": "/model", "detail": "it is so"}],
    "file": "n.py", "line": 1, "source": "x", "remedy": "do `mode`", "limit": 5, "names": ["a"],
}  # fmt: skip
COMMANDS = {
    "models": ["models"],
    "one model": ["models", "net"],
    "bitwise": ["models", "net", "--bitwise"],
    "traces": ["traces"],
    "report": ["report", ID],
    "logs": ["logs", "net"],
    "graph": ["graph", "net"],
    "diff": ["diff", "net:1", "net@prod"],
    "promote": ["promote", "net:1"],
    "alias": ["alias", "net:1", "prod"],
    "infer": ["infer", "net", "{}"],
    "trace": ["trace", "torch.nn:Linear", "--input", "1x2"],
}
Answer = Callable[[httpx.Request], httpx.Response]
Run = Callable[[list[str], Answer], Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    client = httpx.Client

    def run(arguments: list[str], answer: Answer) -> Result:
        monkeypatch.setattr(httpx, "Client", partial(client, transport=httpx.MockTransport(answer)))
        return CliRunner().invoke(COMMAND, [*arguments, "--url", ADDRESS])

    return run


def answer_of(replies: dict[str, Any], asked: set[str] | None = None) -> Answer:
    arrays = io.BytesIO()
    np.savez(arrays, **{"input.x": np.ones(2)})

    def answer(request: httpx.Request) -> httpx.Response:
        name = f"{request.method} {request.url.path}"
        if asked is not None:
            asked.add(name)
        if name in replies:
            return httpx.Response(200, json=replies[name])
        return httpx.Response(200, content=arrays.getvalue() if name.endswith(".npz") else b"text")

    return answer


@pytest.mark.parametrize("arguments", COMMANDS.values(), ids=[*COMMANDS])
def test_members_of_wrong_types_end_in_a_line_and_no_traceback(run: Run, arguments: list[str]) -> None:
    asked: set[str] = set()
    whole = run(arguments, answer_of(REPLIES, asked))
    assert whole.exit_code in (0, 3, 4), whole.output

    if arguments[0] in ("trace", "graph"):
        asked.discard("GET /artifacts/sha256:1")  # which it reads as `tracehouse report` does
    others = []
    for name in asked & {*REPLIES}:
        for what, changed in damaged(REPLIES[name]):
            ended = run(arguments, answer_of(REPLIES | {name: changed}))
            if not isinstance(ended.exception, SystemExit | None) or (ended.exit_code and not ended.stderr):
                others.append(f"{name}{what}: {ended.exception!r}")
    assert others == []


def test_problems_in_another_form_are_told(run: Run) -> None:
    failed = TRACE | {"state": "failed", "problem": PROBLEM}
    for _, changed in damaged({"problem": PROBLEM}):
        kept = run(["report", ID], answer_of(REPLIES | {f"GET /trace/{ID}": failed | changed}))
        refused = run(["models"], lambda _, changed=changed: httpx.Response(409, json=changed["problem"]))  # type: ignore[misc]
        for ended in (kept, refused):
            assert isinstance(ended.exception, SystemExit), (changed, ended.exception)
            assert (ended.exit_code, bool(ended.stderr)) == (1, True), changed


@pytest.mark.parametrize("data", ['{"progress": "all"}', '{"text": 5}', '{"expected_start": "2026"}', "[]", "text"])
@pytest.mark.parametrize("arguments", [["logs", "--follow", ID], COMMANDS["trace"]], ids=["logs", "trace"])
def test_events_in_another_form_are_told(run: Run, arguments: list[str], data: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path.endswith("/events"):
            return httpx.Response(200, text=f"event: position\ndata: {data}\n\n")
        return answer_of(REPLIES)(request)

    ended = run(arguments, answer)

    assert (ended.exit_code, ended.stderr.startswith(f"{ADDRESS}: the answer is no")) == (1, True), ended.exception


@pytest.mark.parametrize(
    "npz", [b"", b"text", b"PK\x05\x06", b"\x93NUMPY\x01\x00"], ids=["empty", "text", "cut off", "one array"]
)
def test_counterexamples_in_another_form_are_told(run: Run, npz: bytes) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, content=npz) if request.url.path.endswith("npz") else answer_of(REPLIES)(request)

    ended = run(["report", ID], answer)

    assert ended.exit_code == 1
    assert f"{ADDRESS}: the inputs of counterexample 0 cannot be read" in ended.stderr


def test_what_is_wrong_is_named_with_its_place_in_one_line(run: Run) -> None:
    wrong = put(MODEL, "versions", [VERSION, VERSION | {"verdict": 5}])
    ended = run(["models", "net"], answer_of(REPLIES | {"GET /models/net": wrong}))

    assert (ended.exit_code, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"{ADDRESS}: the answer is not one of a Tracehouse service of this release")
    assert "at ['versions'][1]['verdict']" in line


@pytest.mark.parametrize(("arguments", "member"), [(["models"], "models"), (["traces"], "trace_requests")])
@pytest.mark.parametrize("listed", [0, 1])
def test_a_list_whose_every_page_has_a_new_cursor_ends(
    run: Run, arguments: list[str], member: str, listed: int
) -> None:
    numbers = count()
    entries = REPLIES[f"GET /{'models' if member == 'models' else 'trace'}"][member][:listed]
    ended = run(
        arguments, lambda _: httpx.Response(200, json={member: entries, "next_cursor": f"page {next(numbers)}"})
    )

    assert (ended.exit_code, ended.stdout) == (1, "")
    assert "would never end: is the address that of a Tracehouse service?" in ended.stderr


def test_what_a_server_names_does_not_act_on_the_terminal(run: Run) -> None:
    ended = run(["models"], answer_of({"GET /models": {"models": [MODEL | {"name": "\x1b[2J"}], "next_cursor": None}}))

    assert (ended.exit_code, "\x1b" in ended.stdout, r"\x1b[2J: 1 verified" in ended.stdout) == (0, False, True)


@pytest.mark.parametrize("name", ["two\nlines", "a\ttab", "\u2028", "\x9b2J"])
def test_a_name_with_a_line_break_stays_in_its_line(run: Run, name: str) -> None:
    shown = ascii(name)[1:-1]
    models = {"models": [MODEL | {"name": name}, MODEL], "next_cursor": None}
    traces = {"trace_requests": [TRACE | {"model": {"name": name, "version": 2}}, TRACE], "next_cursor": None}
    artifact = ARTIFACT | {"contract": {"methods": {name: METHOD}, "open": False}}
    listed = run(["models"], answer_of({"GET /models": models}))
    rows = run(["traces"], answer_of({"GET /trace": traces}))
    report = run(["report", ID], answer_of(REPLIES | {"GET /artifacts/sha256:1": artifact}))

    assert [line.partition(": 1 ")[0] for line in listed.stdout.split("\n")] == [shown, "net", ""], listed.stderr
    cells = [re.split(" {2,}", line)[3:4] for line in rows.stdout.split("\n")]
    assert cells == [["model"], [f"{shown}:2"], ["net:2"], []], rows.stderr
    assert f" {shown} " in report.stdout, report.stderr


@pytest.mark.parametrize("reply", [{}, {"models": []}, {"outputs": 5}, {"outputs": None}, {"outputs": [5]}, [1]])
def test_what_infers_and_is_no_model_is_not_printed(run: Run, reply: Any) -> None:
    ended = run(["infer", "net", "{}"], lambda _: httpx.Response(200, json=reply))

    assert (ended.exit_code, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"{ADDRESS}: the answer is ")


def busy(asked: list[httpx.Request]) -> Answer:
    """A service that refuses each request twice, and says to come back at once."""
    refused: Counter[tuple[str, str]] = Counter()

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        what = request.method, str(request.url)
        refused[what] += 1
        if refused[what] < 3:
            return httpx.Response(503, json=PROBLEM, headers={"retry-after": "0"})
        return answer_of(REPLIES)(request)

    return answer


@pytest.mark.parametrize(
    "arguments", [COMMANDS["models"], COMMANDS["trace"], COMMANDS["report"], ["report", ID, "--output", "report.html"]]
)
def test_a_service_that_says_to_come_back_soon_is_asked_again(run: Run, arguments: list[str]) -> None:
    asked: list[httpx.Request] = []
    ended = run(arguments, busy(asked))

    assert ended.exit_code in (0, 3), ended.stderr
    posted = {(one.headers["idempotency-key"], one.content) for one in asked if one.method == "POST"}
    assert len(posted) == (arguments[0] == "trace"), "it is the same that is sent again"


@pytest.mark.parametrize("name", ["bitwise", "promote", "alias", "infer"])
def test_what_might_be_done_twice_is_not_sent_again(run: Run, name: str) -> None:
    asked: list[httpx.Request] = []
    ended = run(COMMANDS[name], busy(asked))

    assert (ended.exit_code, ended.stderr.startswith("No (no)")) == (1, True)
    assert len([one for one in asked if one.method != "GET"]) == 1
