"""The report: one page that says what the check found, and does nothing whatever the model was called."""

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any, cast

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from service.domain.api_key import DEFAULT_TENANT
from service.storage.artifacts import keep as keep_artifact
from service.storage.database import Store
from tests.conftest import NO_BLOB, keep, make_artifact
from tracehouse.artifact.conversion_attempt import ConversionAttempt
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.artifact.environment import EnvironmentRef
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Batch, Contract, MethodContract
from tracehouse.contract.dims import format_sizes
from tracehouse.contract.input_spec import InputSpec, ValueRange
from tracehouse.contract.output_spec import OutputSpec
from tracehouse.contract.regions import Region, Span
from tracehouse.contract.structure import Argument, BakedLeaf, TensorLeaf
from tracehouse.differential.comparison import Outcome
from tracehouse.findings.comparison import Comparison
from tracehouse.findings.finding import Finding
from tracehouse.findings.trace_check import Layer, TorchCheck, TraceCheck, TracerWarning
from tracehouse.findings.verdict import Verdict
from tracehouse.findings.weights import weights_not_sent
from tracehouse.tensors.tensor import Datatype, TensorSpec

SOURCE = """\
import torch


class Net(torch.nn.Module):
    def forward(self, ids, scale=2.0):
        if ids.float().sum() > 3:
            return ids * scale
        assert ids.shape[0] > 0
        return ids.reshape(int(ids.shape[0]), -1) * 2
"""
HOSTILE = "</pre><script>alert(1)</script><img src=x onerror=alert(2)>\"'&"


class Read(HTMLParser):
    """What a reader sees: the text, the tables as rows of cells, and what of it could do something."""

    def __init__(self) -> None:
        super().__init__()
        self.text: list[str] = []
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("meta", "br"):
            self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag, f"{tag} ends what is not open"

    def handle_data(self, data: str) -> None:
        if "style" in self._open:
            return
        self.text.append(data)
        if "td" in self._open or "th" in self._open:
            self.rows[-1][-1] += data

    @property
    def whole(self) -> str:
        return " ".join(" ".join(self.text).split())

    def row(self, first: str) -> list[str]:
        return next(row for row in self.rows if row and row[0] == first)


def contract() -> Contract:
    ids = InputSpec(
        name="ids",
        datatype=Datatype.INT64,
        shape=("batch", 8),
        example=(2, 8),
        fixed={"1": "trace"},
        values=ValueRange(low=0, high=999, basis="tested"),
    )
    method = MethodContract(
        arguments=[
            Argument(name="ids", structure=TensorLeaf(tensor="ids")),
            Argument(name="scale", structure=BakedLeaf(baked=2.5)),
        ],
        inputs=[ids],
        outputs=[OutputSpec(name="output", datatype=Datatype.FP32, shape=("batch", -1))],
        returns=TensorLeaf(tensor="output"),
        regions=[
            Region(spans={"batch": [Span(low=1, high=32)]}, basis="proven"),
            Region(spans={"batch": [Span(low=48, high=48)]}, basis="tested"),
        ],
        batch=Batch(symbol="batch", up_to=32, inputs={"ids": 0}, outputs={"output": 0}),
    )
    return Contract(methods={"forward": method})


def check(**changes: Any) -> TraceCheck:
    findings = [
        Finding(
            kind="baked-value",
            detail="the branch was taken as on the example",
            file="net.py",
            line=6,
            source="if ids.float().sum() > 3:",
            confirmed=True,
            effect="harmful",
            reason="with the other value the graph is another one",
            evidence={"eager": 1.5, "artifact": 2.5},
            remedy="write torch.where(ids.float().sum() > 3, ...)",
            counterexample=0,
        ),
        Finding(
            kind="tracer-warning", detail="an assert", file="net.py", line=8, effect="harmless", reason="it raises"
        ),
        Finding(kind="baked-size", detail="the number of rows is kept", file="net.py", line=9),
    ]
    comparisons = [
        Comparison(method="forward", case="example", in_contract=True, agrees=True, largest_difference=0.0),
        Comparison(method="forward", case="probe: large", in_contract=True, agrees=True, largest_difference=3e-7),
        Comparison(
            method="forward",
            case="fresh 1",
            in_contract=True,
            agrees=False,
            largest_difference=12.0,
            difference="output: 12.0 apart",
        ),
    ]
    warning = TracerWarning(
        kind="tensor-to-python-boolean", message="Converting a tensor", file="net.py", line=6, source="if ids"
    )
    whole: dict[str, Any] = {
        "verdict": Verdict.REJECTED,
        "comparisons": comparisons,
        "findings": findings,
        "torch": TorchCheck(ran=True, passed=True, warnings=[warning]),
        "layers": [
            Layer(name="probe", method="forward", seconds=0.25, summary="tried 12 inputs", left_out=["sizes above 64"])
        ],
        "budget_s": 15.0,
    }
    return TraceCheck(**(whole | changes))


@pytest.fixture
def store(steady: TestClient) -> Store:
    """The service's own."""
    app = steady.app
    assert isinstance(app, FastAPI)
    return cast(Store, app.state.context.store)


@pytest.fixture
def report(steady: TestClient, store: Store) -> Callable[..., Read]:
    """The page of an artifact with these members, as it is read."""

    def report(files: dict[str, str] | None = None, **members: Any) -> Read:
        shown = Counterexample(
            method="forward",
            case="counterexample: negative",
            inputs=[TensorSpec(name="ids", datatype=Datatype.INT64, shape=(1, 8))],
            output="output",
            difference="2.5 and not 1.5",
            eager=1.5,
            artifact=2.5,
            arrays=NO_BLOB,
            test=NO_BLOB,
        )
        whole: dict[str, Any] = {
            "contract": contract(),
            "check": check(),
            "sources": keep(store.blobs, json.dumps(files or {"net.py": SOURCE}).encode()),
            "counterexamples": [shown],
            "attempts": [
                ConversionAttempt(way="trace", verdict=Verdict.REJECTED, kept=True),
                ConversionAttempt(way="script", verdict=None, kept=False, detail="torch cannot script this"),
            ],
        }
        artifact = make_artifact(**(whole | members))
        answer = steady.get(f"/artifacts/{_stored(store, artifact)}/report")
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        read = Read()
        read.feed(answer.text)
        read.close()
        return read

    return report


def _stored(store: Store, artifact: Artifact) -> str:
    with store.artifacts._transactions.write() as connection:
        keep_artifact(connection, DEFAULT_TENANT, artifact)
    return artifact.digest


def test_the_environment_is_named_with_its_digest(report: Callable[..., Read]) -> None:
    digest = "sha256:" + "e" * 64

    assert f"Environment vision, {digest}" in report(environment=EnvironmentRef(name="vision", digest=digest)).whole
    assert "Environment" not in report().whole


def test_the_verdict_is_said_in_a_sentence(report: Callable[..., Read]) -> None:
    page = report()

    assert "✗ rejected It answers wrongly in a way that no boundary on its inputs excludes." in page.whole
    assert "✓ verified" in report(check=check(verdict=Verdict.VERIFIED)).whole


def test_a_check_that_was_cut_is_said_beside_the_verdict(report: Callable[..., Read]) -> None:
    page = report(check=check(verdict=Verdict.VERIFIED)).whole

    assert (
        "✓ verified, but the check is incomplete: not checked to the end, of forward: whether the trace answers as the "
        "model does on inputs that the check makes up (sizes above 64" in page
    )


def test_the_sizes_that_the_service_called_are_told_apart_from_what_the_tracing_process_found(
    report: Callable[..., Read],
) -> None:
    example = contract().method("forward").example_sizes
    called = contract().with_called({"forward": [example or {}]})

    assert f"The service itself called both at {format_sizes(example or {})}, each in a process of its own" in (
        report(contract=called).whole
    )
    nobody_called = report(contract=contract()).whole
    assert "The service itself called" not in nobody_called
    assert "That these sizes are right was found by the process that traced" in nobody_called


def test_an_open_contract_is_not_said_to_refuse_what_it_answers(report: Callable[..., Read]) -> None:
    opened = contract().model_copy(update={"open": True})

    page = report(contract=opened, check=check(verdict=Verdict.RESTRICTED)).whole
    assert "Sizes that were never tried are answered too, with a warning." in page
    assert "Anything else is refused" not in page
    assert "no wrong answer leaves the service" not in page
    assert "all others are refused" not in report(contract=opened, check=check(verdict=Verdict.VERIFIED)).whole


def test_the_contract_says_which_sizes_are_taken_and_how_that_is_known(report: Callable[..., Read]) -> None:
    page = report()

    assert page.row("ids") == [
        "ids",
        "INT64",
        "[batch, 8]",
        "[2, 8]",
        "dim 1: the trace keeps this size, and answers others wrongly",
        "0 to 999 (tested)",
    ]
    assert page.row("batch 1 to 32")[1].startswith("proven: ")
    assert page.row("batch 48")[1].startswith("tested: ")
    assert page.row("scale") == ["scale", "2.5", "the trace baked it in"]
    assert page.row("output") == ["output", "FP32", "[batch, any]"]
    assert "Rows along batch do not see one another, up to 32 of them. So the process that traced has found." in (
        page.whole
    )


def test_the_contract_says_which_datatypes_are_taken_and_which_output_follows(report: Callable[..., Read]) -> None:
    whole = contract()
    method = whole.methods["forward"]
    inputs = [method.inputs[0].model_copy(update={"datatypes": [Datatype.INT64, Datatype.INT32]})]
    outputs = [method.outputs[0].model_copy(update={"datatype": Datatype.INT64, "datatype_of": "ids"})]
    following = method.model_copy(update={"inputs": inputs, "outputs": outputs})

    page = report(contract=whole.model_copy(update={"methods": {"forward": following}}))

    assert page.row("ids")[1] == "INT64 or INT32"
    assert page.row("output") == ["output", "as ids", "[batch, any]"]


def test_a_finding_about_the_request_is_not_said_to_be_shown_by_inputs(report: Callable[..., Read]) -> None:
    page = report(check=check(findings=[weights_not_sent(0)])).whole

    assert "No weights were sent" in page
    assert "inputs were found that show it" not in page


def test_findings_stand_by_their_effect_with_all_that_is_known(report: Callable[..., Read]) -> None:
    page = report().whole

    assert page.index("Harmful: 2") < page.index("Harmless: 1")
    for said in (
        "1. baked-value at net.py:6",
        "with the other value the graph is another one",
        "yes: inputs were found that show it",
        "write torch.where(ids.float().sum() > 3, ...)",
        "eager 1.5",
        "counterexample-0.npz",
        "test_counterexample_0.py",
    ):
        assert said in page, said


def test_that_weights_never_arrived_stands_before_everything_else(report: Callable[..., Read]) -> None:
    missing = Finding(kind="weights-missing", detail="2 parameters got no value")
    page = report(check=check(findings=[*check().findings, missing])).whole

    assert page.index("2 parameters got no value") < page.index("✗ rejected") < page.index("Contract")


def test_a_finding_links_to_what_its_kind_means(report: Callable[..., Read], steady: TestClient) -> None:
    page = report()

    links = {value for name, value in page.attributes if name == "href" and value and value.startswith("/findings/")}
    assert links == {"/findings/baked-value", "/findings/tracer-warning", "/findings/baked-size"}
    for link in links:
        assert steady.get(link).json()["title"] in page.whole


def test_a_kind_that_an_earlier_release_stored_is_shown_without_a_link(report: Callable[..., Read]) -> None:
    page = report(check=check(findings=[Finding(kind="old-kind", detail="it was so", file="net.py", line=6)]))

    assert "1. old-kind at net.py:6" in page.whole
    assert "it was so" in page.whole
    assert not [value for _, value in page.attributes if value and value.startswith("/findings/")]


def test_the_source_is_numbered_and_what_was_found_stands_at_its_line(report: Callable[..., Read]) -> None:
    page = report()

    number, mark, line = page.row("6")
    assert (number, mark) == ("6", "✗")
    assert line.startswith("        if ids.float().sum() > 3:")
    assert "baked-value (1): the branch was taken as on the example" in line
    assert page.row("8")[1] == "✓"
    assert page.row("5")[1] == ""


def test_of_a_harmless_line_the_source_says_why(report: Callable[..., Read]) -> None:
    assert "tracer-warning (3) : harmless: it raises" in report().whole


def test_findings_of_one_cause_are_one_card_and_what_torch_warned_of_comes_last(report: Callable[..., Read]) -> None:
    warning = Finding(kind="tracer-warning", detail="torch warned", file="net.py", line=6, effect="harmful")
    found = Finding(kind="baked-value", detail="let `mode` be auto", file="net.py", line=6, effect="harmful")
    differs = Finding(kind="output-differs", detail="-0.706571102142334 and 0.586857795715332", file="net.py", line=6)
    page = report(check=check(findings=[warning, differs, found]))

    assert "Harmful: 1 1. baked-value at net.py:6" in page.whole
    assert (
        page.whole.index("let mode be auto") < page.whole.index("-0.7066 and 0.5869") < page.whole.index("torch warned")
    )
    assert not re.search(r"2\. [a-z-]+ at ", page.whole)
    assert page.row("6")[2].count("(1)") == 3


def test_cause_and_remedy_come_before_the_contract_unless_all_is_well(report: Callable[..., Read]) -> None:
    wrong = Finding(kind="baked-value", detail="a branch", remedy="write torch.where", effect="harmful")
    kept = Finding(kind="baked-size", detail="a harmless size", effect="harmless")
    rejected = report(check=check(verdict=Verdict.REJECTED, findings=[wrong])).whole
    verified = report(check=check(verdict=Verdict.VERIFIED, findings=[kept])).whole

    assert rejected.index("write torch.where") < rejected.index("Inputs of forward") < rejected.index("Made with")
    assert verified.index("Inputs of forward") < verified.index("a harmless size") < verified.index("Made with")


def test_rows_that_depend_on_each_other_are_said_before_the_contract(report: Callable[..., Read]) -> None:
    depend = Finding(kind="rows-depend", detail="several requests to forward cannot be answered in one call")
    norm = Finding(
        kind="training-mode",
        detail="norm normalises by the batch",
        evidence={"modules": [{"path": "norm", "operator": "aten::batch_norm"}]},
    )
    drops = Finding(
        kind="training-mode", detail="it drops", evidence={"modules": [{"path": "a", "operator": "aten::dropout"}]}
    )
    said = "Rows of a batch influence one another:"

    for found in (depend, norm):
        page = report(check=check(findings=[found])).whole
        assert page.index(f"{said} {found.detail}") < page.index("Contract and check")
    assert said not in report(check=check(findings=[drops])).whole


def test_a_report_of_the_service_leads_to_archive_graph_and_counterexamples(
    report: Callable[..., Read], steady: TestClient, store: Store
) -> None:
    page = report()

    links = [value or "" for name, value in page.attributes if name == "href"]
    [archive] = [link for link in links if link.endswith("/archive")]
    assert {f"{archive.removesuffix('archive')}{path}" for path in ("graph.svg", "counterexamples/0.npz",
                                                                    "counterexamples/0.py")} <= {*links}  # fmt: skip
    assert steady.get(archive.removesuffix("/archive")).status_code == 200


def test_of_a_long_file_the_lines_around_the_findings_are_shown(report: Callable[..., Read]) -> None:
    page = report({"net.py": SOURCE + "x = 1\n" * 2000})

    assert page.row("6")[1] == "✗"
    assert page.row("⋯")[2] == "lines left out"
    assert not any(row and row[0] == "1000" for row in page.rows)


def test_what_was_compared_is_counted_and_listed(report: Callable[..., Read]) -> None:
    page = report()

    assert "2 agree, 1 differ" in page.whole
    assert ("aria-label", None) not in page.attributes
    [said] = [value for name, value in page.attributes if name == "aria-label"]
    assert said is not None
    assert "exact: 1 agree, 0 differ" in said
    assert "1e-7: 1 agree, 0 differ" in said
    assert "1e1: 0 agree, 1 differ" in said
    assert page.row("fresh 1") == ["fresh 1", "forward", "yes", "✗ differs", "12", "output: 12.0 apart"]


def test_what_agrees_only_as_far_as_eager_is_exact_is_said(report: Callable[..., Read]) -> None:
    limited = Comparison(
        method="forward", case="fresh 2", in_contract=True, agrees=True, outcome=Outcome.LIMITED, condition=4321.0
    )
    unclear = Comparison(method="forward", case="fresh 3", in_contract=True, agrees=False, outcome=Outcome.INCONCLUSIVE)
    page = report(check=check(comparisons=[limited, unclear]))

    assert "1 of 2 comparisons agree only as far as the eager model itself is exact" in page.whole
    assert "1 of 2 comparisons count as different, although nothing tells rounding from error there" in page.whole
    assert page.row("fresh 2")[3] == "✓ agrees as far as eager is exact (4.3e+03 roundings)"
    assert page.row("fresh 3")[3] == "✗ differs, perhaps by rounding"


def test_the_page_shows_the_layers_torchs_own_check_and_the_attempts(report: Callable[..., Read]) -> None:
    page = report()

    assert page.row("probe") == ["probe", "forward", "0.25", "tried 12 inputs", "sizes above 64"]
    assert "Its own check passed." in page.whole
    assert page.row("tensor-to-python-boolean")[1] == "net.py:6"
    assert page.row("script") == ["script", "no artifact", "no", "torch cannot script this"]


def test_nothing_that_was_submitted_is_markup(report: Callable[..., Read]) -> None:
    found = Finding(
        kind=HOSTILE,
        detail=HOSTILE,
        file=HOSTILE,
        line=1,
        source=HOSTILE,
        evidence={HOSTILE: HOSTILE},
        remedy=HOSTILE,
        reason=HOSTILE,
    )
    compared = Comparison(method=HOSTILE, case=HOSTILE, in_contract=True, agrees=False, difference=HOSTILE)
    torch = TorchCheck(ran=True, passed=False, message=HOSTILE, warnings=[TracerWarning(kind=HOSTILE, message=HOSTILE)])
    layer = Layer(name="flip", method=HOSTILE, seconds=0, summary=HOSTILE, left_out=[HOSTILE])
    hostile = check(findings=[found], comparisons=[compared], torch=torch, layers=[layer])
    spec = InputSpec(name=HOSTILE, datatype=Datatype.FP32, shape=(1,), example=(1,))
    method = MethodContract(
        arguments=[Argument(name=HOSTILE, structure=TensorLeaf(tensor=HOSTILE))],
        inputs=[spec],
        outputs=[],
        returns=BakedLeaf(baked=None),
    )

    page = report({HOSTILE: HOSTILE}, check=hostile, contract=Contract(methods={HOSTILE: method}), entrypoint=HOSTILE)

    assert not {"script", "img", "iframe", "object", "link"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on") or name in ("src", "style")]
    assert all(
        value is not None and value.startswith(("#", "/artifacts/sha256:"))
        for name, value in page.attributes
        if name == "href"
    )
    assert page.whole.count("<script>alert(1)</script>") >= 15


def test_characters_that_turn_a_line_around_are_named(report: Callable[..., Read]) -> None:
    page = report({"net.py": "admin = True \u202e# \u2066not this\x00"})

    assert "⟨RIGHT-TO-LEFT OVERRIDE⟩" in page.whole
    assert "⟨U+0000⟩" in page.whole


def test_the_page_may_load_and_run_nothing(report: Callable[..., Read], steady: TestClient, digest: str) -> None:
    policy = steady.get(f"/artifacts/{digest}/report").headers["content-security-policy"]

    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy
    assert policy.endswith("frame-ancestors 'none'; sandbox allow-downloads")
    assert "style" in report().tags


@pytest.mark.parametrize("data", [b"not json", b"[1]", b'{"net.py": 3}'])
def test_sources_that_cannot_be_read_are_left_out(report: Callable[..., Read], store: Store, data: bytes) -> None:
    page = report(sources=keep(store.blobs, data))

    assert not any(row[0] == "6" for row in page.rows)
    assert "1. baked-value at net.py:6" in page.whole


def test_an_artifact_of_nothing_but_a_verdict_has_a_page(report: Callable[..., Read]) -> None:
    nothing = TraceCheck(verdict=Verdict.VERIFIED, comparisons=[], findings=[], torch=TorchCheck(ran=False))
    page = report(check=nothing, contract=Contract(methods={}), counterexamples=[], attempts=[], entrypoint=None).whole

    assert "Trace check of an uploaded archive" in page
    assert "Nothing was found." in page
    assert "Nothing was compared." in page
    assert "Its own check did not run." in page
