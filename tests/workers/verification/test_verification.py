"""Verification: what is stored is what two processes showed apart, whatever the one that traced says."""

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch

from service.domain.trace_request import Stage, State, TraceRequest
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, PATIENCE_S, TENANT, wait_until
from tests.submissions import EVERY_DATATYPE, spec, tensor
from tests.workers.conftest import LIMITS, ArtifactOf, Work
from tracehouse.contract import called_sizes
from tracehouse.contract.structure import BakedLeaf, DictNode, TensorLeaf, TupleNode
from tracehouse.differential import golden
from tracehouse.errors import Failure
from tracehouse.findings import differences
from tracehouse.findings.verdict import Verdict
from tracehouse.tensors.tensor import Datatype, TensorSpec
from tracehouse.torch_values.tensors import unpack
from workers.verification.fresh_rounds import ROUNDS_LEAST, ROUNDS_MOST
from workers.worker import Worker

X = tensor([[1.0, 2.0, 3.0, 4.0]])
ROWS = tensor([[1.0, 2.0, 3.0, 4.0], [5.0, 6.0, 7.0, 8.0]])
MANY = tensor([[1.0] * 64])  # no two draws drop the same
IMAGE = {"datatype": "FP32", "shape": [2, 3, 8, 8], "random": {"seed": 0}}
FLOATS = tensor([1.0, 2.0, 3.0, 4.0])
HONEST = spec("linear", example_inputs=[X])
# What the two processes show apart is seen without the layers of the check, which take half of a trace and more.
NO_LAYERS = {"probes": "off"}
# Layers offer cases to it. Those that the quick budget makes do, for models that are right.
QUICK = {"budget": "quick"}
NEXT = spec("linear", example_inputs=[X], check=NO_LAYERS)

# What submitted code can do where it is traced: have the check say what it likes.
SAYS_VERIFIED = """
import sys
import torch
from tracehouse.findings.trace_check import TorchCheck, TraceCheck, Verdict
from tracehouse.check import check
from tracehouse.tensors.tensor import Datatype, TensorSpec

def run(self, *given):
    said = TraceCheck(
        verdict=Verdict.VERIFIED, tolerance=self._tolerance, comparisons=[], findings=[], torch=TorchCheck(ran=False)
    )
    return check.CheckResult(said, OFFERED, {})

check.Check.run = run
OFFERED = []
TRACER = sys.argv[0] == "workers.programs.tracer"
"""
DOUBLES = """
class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2
"""
# The trace is of another model than the one that is asked.
TRIPLES_WHEN_TRACED = """
class Net(torch.nn.Module):
    def forward(self, x):
        return x * 3 if torch.jit.is_tracing() else x * 2
"""
IMPORT = "import torch\n"


def saved_as(archive: str) -> str:
    """The archive that is sent, in the place of the one that was traced."""
    return f"from tracehouse.torchscript.trace import _Recording\n_Recording.save = lambda self, module: {archive}\n"


def offering(datatype: str, shape: list[int], body: str, times: int = 1) -> str:
    """A check that offers such cases."""
    return f"""
from types import SimpleNamespace
from workers.programs.tracer import Tracing
OFFERED = [SimpleNamespace(name="probe: zeros")] * {times}
def send(self, offered):
    x = {{"name": "x", "datatype": {datatype!r}, "shape": {shape}}}
    self._channel.send({{"kind": "case", "name": "probe: zeros", "method": "forward", "inputs": [x]}}, bytes({body}))
Tracing._send_case = send
"""


CONTRACT = """
from tracehouse.eager import observed_contract as contract
observe = contract.observe
def lying(calls, outputs):
    told = observe(calls, outputs).model_dump(mode="json")
    method = told["methods"]["forward"]
    %s
    return contract.Contract.model_validate(told)
contract.observe = lying
"""

FORM = """
from dataclasses import replace
from tracehouse.check import model_check as child
candidate_of = child.candidate_of
child.candidate_of = lambda *given: replace(candidate_of(*given), form=%r)
"""

TOLD_OF_ARCHIVE = """
import os
from workers.programs.tracer import Tracing
def tell(self, archive):
    %s
Tracing._send_archive = tell
"""

FORGED: dict[str, tuple[str, set[str]]] = {
    "an archive in its file that is not there": (
        IMPORT
        + TOLD_OF_ARCHIVE
        % """os.close(os.open(f"/proc/self/fd/{self._archive_file}", os.O_WRONLY | os.O_TRUNC))
    self._channel.send({"kind": "file", "name": "archive", "in_file": True})"""
        + DOUBLES,
        {"archive-unusable"},
    ),
    "an archive in its file and in the frame": (
        IMPORT
        + TOLD_OF_ARCHIVE % """self._channel.send({"kind": "file", "name": "archive", "in_file": True}, b"PK")"""
        + DOUBLES,
        {"model-crashed"},
    ),
    "printouts in the archive's file": (
        IMPORT
        + TOLD_OF_ARCHIVE % """self._channel.send({"kind": "file", "name": "printouts", "in_file": True})"""
        + DOUBLES,
        {"model-crashed"},
    ),
    "an archive that becomes another one when it was told": (
        IMPORT
        + TOLD_OF_ARCHIVE
        % """self._channel.send({"kind": "file", "name": "archive", "in_file": True})
    other = torch.jit.script(Net())
    while os.fstat(self._archive_file).st_size:  # until it has been copied
        pass
    try:
        os.pwrite(self._archive_file, other.save_to_buffer(), 0)
    except PermissionError:  # nobody can fill it again
        pass"""
        + TRIPLES_WHEN_TRACED,
        {"rejected"},
    ),
    "a verdict written into every descriptor": (
        """
import json, os, struct, sys
import torch
def frame(header, body=b""):
    text = json.dumps(header).encode()
    return struct.pack("<IQ", len(text), len(body)) + text + body
class Net(torch.nn.Module):
    def forward(self, x):
        if not torch.jit.is_tracing():
            return x * 2
        said = frame({"kind": "file", "name": "archive"}, b"PK") + frame({"kind": "traced", "verdict": "verified"})
        for descriptor in range(3, 128):
            try:
                os.write(descriptor, said)
            except OSError:
                pass
        os._exit(0)
""",
        {"model-crashed", "archive-unusable"},
    ),
    "every comparison patched": (
        IMPORT
        + """
import numpy
from tracehouse.check import comparer
from tracehouse.differential import comparison
from tracehouse.torch_values import compare
same = lambda *_, **__: comparison.ComparisonResult(0.0, None)
torch.allclose = torch.equal = numpy.allclose = numpy.array_equal = lambda *_, **__: True
torch.testing.assert_close = lambda *_, **__: None
comparison.compare = comparison.compare_leaf = compare.compare = comparer.compare = same
"""
        + TRIPLES_WHEN_TRACED,
        {"rejected"},
    ),
    "another answer while it is traced": (IMPORT + TRIPLES_WHEN_TRACED, {"rejected"}),
    "the check says verified": (SAYS_VERIFIED + TRIPLES_WHEN_TRACED, {"rejected"}),
    "what cuts the check says verified": (
        IMPORT
        + """
from workers.programs import tracer as child
cut = child.cut_check
child.cut_check = lambda check: cut(check).model_copy(
    update={"verdict": "verified", "findings": [], "comparisons": []}
)
"""
        + TRIPLES_WHEN_TRACED,
        {"rejected"},
    ),
    "another module is traced": (
        SAYS_VERIFIED
        + """
trace_module = torch.jit.trace_module
class Other(torch.nn.Module):
    def forward(self, x):
        return x * 3
def swapped(module, inputs, **options):
    torch.jit.trace_module = trace_module
    return trace_module(Other(), inputs)
torch.jit.trace_module = swapped
"""
        + DOUBLES,
        {"rejected"},
    ),
    "another archive is sent": (
        SAYS_VERIFIED
        + """
class Other(torch.nn.Module):
    def forward(self, x):
        return x * 3
"""
        + saved_as("torch.jit.trace(Other(), torch.ones(1, 4)).save_to_buffer()")
        + DOUBLES,
        {"rejected"},
    ),
    "the example's answer is baked in": (
        SAYS_VERIFIED
        + """
class Net(torch.nn.Module):
    def forward(self, x):
        return torch.tensor([[2.0, 4.0, 6.0, 8.0]]) if torch.jit.is_tracing() else x * 2
""",
        {"rejected"},
    ),
    "right on the example and on the usual probes": (
        SAYS_VERIFIED
        + """
class Net(torch.nn.Module):
    def forward(self, x):
        known = torch.tensor([[1.0, 2.0, 3.0, 4.0]])
        return x * 2 if any(torch.equal(x, probe) for probe in (known, -known, known * 0, known.flip(1))) else x * 5
""",
        {"rejected"},
    ),
    "the reference refuses all but the example": (
        SAYS_VERIFIED
        + """
class Net(torch.nn.Module):
    def forward(self, x):
        if not TRACER and not torch.equal(x, torch.tensor([[1.0, 2.0, 3.0, 4.0]])):
            raise ValueError("not today")
        return x * 3 if torch.jit.is_tracing() and x.shape[0] > 1 else x * 2
""",
        {"rejected"},
    ),
    "randomness that the check keeps to itself": (
        SAYS_VERIFIED
        + """
class Net(torch.nn.Module):
    def forward(self, x):
        return x + __import__("random").random() * 1e-4
""",
        {"rejected"},
    ),
    "state that the check keeps to itself": (
        SAYS_VERIFIED
        + """
class Net(torch.nn.Module):
    calls = 0
    def forward(self, x):
        Net.calls += 1
        return x * 2 if TRACER or Net.calls < 4 else x * 3
""",
        {"rejected"},
    ),
    "two archives": (
        SAYS_VERIFIED
        + """
from workers.programs.tracer import Tracing
send = Tracing._send_file
def twice(self, name, data):
    send(self, name, data)
    send(self, name, data)
Tracing._send_file = twice
"""
        + DOUBLES,
        {"model-crashed"},
    ),
    "golden cases of its own": (
        SAYS_VERIFIED
        + """
from workers.programs.tracer import Tracing
send = Tracing._send_file
def more(self, name, data):
    send(self, name, data)
    self._channel.send({"kind": "file", "name": "golden"}, b"")
Tracing._send_file = more
"""
        + DOUBLES,
        {"model-crashed"},
    ),
    "printouts without end": (
        SAYS_VERIFIED
        + "from tracehouse.torchscript import printouts\nprintouts.print_all = lambda module: bytes(65 * 2**20)\n"
        + DOUBLES,
        {"limit-exceeded"},
    ),
    "stages that are not its own": (
        IMPORT
        + """
import gc
from service.sandbox.channel import Channel
(channel,) = [it for it in gc.get_objects() if isinstance(it, Channel)]
channel.send({"kind": "progress", "stage": "verifying", "progress": 0.9})
"""
        + DOUBLES,
        {"model-crashed"},
    ),
    "a contract of another shape": (
        SAYS_VERIFIED + CONTRACT % 'method["inputs"][0] |= {"shape": [4, 1], "example": [4, 1]}' + DOUBLES,
        {"model-unrepeatable"},
    ),
    "a contract of another datatype": (
        SAYS_VERIFIED + CONTRACT % 'method["outputs"][0]["datatype"] = "FP64"' + DOUBLES,
        {"model-unrepeatable"},
    ),
    "a contract of another name": (
        SAYS_VERIFIED + CONTRACT % 'method["arguments"].append({"name": "y", "structure": {"baked": 1}})' + DOUBLES,
        {"model-unrepeatable"},
    ),
    "a contract that returns something else": (
        SAYS_VERIFIED + CONTRACT % 'method["returns"] = {"tuple": [method["returns"]]}' + DOUBLES,
        {"model-unrepeatable"},
    ),
    "the form of an upload": (SAYS_VERIFIED + FORM % "uploaded" + DOUBLES, {"model-crashed"}),
    "the form of parts that nobody had scripted": (SAYS_VERIFIED + FORM % "mixed" + DOUBLES, {"model-crashed"}),
    "a part of a name that shows as another": (
        SAYS_VERIFIED
        + """
from tracehouse.torchscript import script_targets
target = script_targets.ScriptTarget.model_construct(name="gate\\u202eetag\\x1b[2J", is_function=False)
script_targets.find_targets = lambda model, wanted: [target]
"""
        + DOUBLES,
        {"model-crashed"},
    ),
    "a case with too few bytes": (
        SAYS_VERIFIED + offering("FP32", [1, 4], "4", 1) + DOUBLES,
        {"model-crashed"},
    ),
    "a case of another datatype": (
        SAYS_VERIFIED + offering("FP64", [1, 4], "32", 1) + DOUBLES,
        {"model-crashed"},
    ),
    "a case of immense shape": (
        SAYS_VERIFIED + offering("FP32", [2**48] * 32, "16", 1) + DOUBLES,
        {"model-crashed"},
    ),
    "thousands of cases": (
        SAYS_VERIFIED + offering("FP32", [1, 4], "16", 5000) + DOUBLES,
        {"model-crashed"},
    ),
    "cases of gigabytes": (
        SAYS_VERIFIED + offering("FP32", [2**26], "2**28", 8) + DOUBLES,
        {"model-crashed"},
    ),
    "an archive of garbage": (SAYS_VERIFIED + saved_as("bytes(1000)") + DOUBLES, {"archive-unusable"}),
    "an archive without its methods": (
        SAYS_VERIFIED + saved_as("torch.jit.script(torch.nn.Module()).save_to_buffer()") + DOUBLES,
        {"archive-unusable"},
    ),
    "an archive that reads a file": (
        SAYS_VERIFIED
        + """
class Other(torch.nn.Module):
    def forward(self, x):
        return x * 2 + torch.from_file("/etc/passwd", False, 4, dtype=torch.uint8).sum() * 0
"""
        + saved_as("torch.jit.script(Other()).save_to_buffer()")
        + DOUBLES,
        {"rejected"},
    ),
    "a reference that leaves": (
        SAYS_VERIFIED + "import os\nTRACER or os._exit(0)\n" + DOUBLES,
        {"model-exited"},
    ),
    "a reference that crashes": (
        SAYS_VERIFIED + "import ctypes\nTRACER or ctypes.string_at(0)\n" + DOUBLES,
        {"model-crashed"},
    ),
    "a reference that talks nonsense": (
        SAYS_VERIFIED
        + """
import gc
from service.sandbox.channel import Channel
(channel,) = [it for it in gc.get_objects() if isinstance(it, Channel)]
TRACER or channel.send({"kind": "answered", "outputs": [], "returns": {"tuple": []}, "drew": False, "seconds": 0})
"""
        + DOUBLES,
        {"model-crashed"},
    ),
    "a reference that says what the tracer says": (
        SAYS_VERIFIED
        + """
import gc
from service.sandbox.channel import Channel
(channel,) = [it for it in gc.get_objects() if isinstance(it, Channel)]
TRACER or channel.send({"kind": "traced", "verdict": "verified"})
"""
        + DOUBLES,
        {"model-crashed"},
    ),
    "a reference that binds two arguments of one name": (
        SAYS_VERIFIED
        + """
if not TRACER:
    from tracehouse.eager import observed_contract as contract
    arguments = contract.describe_arguments
    contract.describe_arguments = lambda call: arguments(call) + [contract.Argument(name="x", structure={"baked": 1})]
"""
        + DOUBLES,
        {"model-crashed"},
    ),
    "a reference whose answers have other bytes": (
        SAYS_VERIFIED
        + """
from service.protocol.reference import AnswerReply
if not TRACER:
    from workers.programs.reference import Reference
    def say(self, reply):
        self._channel.send({"kind": "answered", "outputs": [{"name": "output", "datatype": "FP32", "shape": [2**40]}],
                            "returns": {"tensor": "output"}, "drew": False, "seconds": 0}, bytes(16))
    Reference._send = say
"""
        + DOUBLES,
        {"model-crashed"},
    ),
}


def hostile(source: str, **members: Any) -> dict[str, Any]:
    inline = {"files": {"net.py": source}, "entrypoint": "net:Net"}
    return {"model": "net", "source": inline, "example_inputs": [X], **members}


def end_of(request: TraceRequest) -> str:
    """The verdict, or what it failed with."""
    if request.failure is not None:
        return request.failure.slug
    return request.verdict.value if request.verdict is not None else request.state.value


@pytest.mark.parametrize(("source", "ends"), FORGED.values(), ids=FORGED)
def test_what_is_forged_is_refused_and_the_next_is_served(work: Work, source: str, ends: set[str]) -> None:
    request = work(hostile(source))

    assert end_of(request) in ends
    assert request.model is None
    assert work(NEXT).verdict is Verdict.VERIFIED


# The honest check leaves out the size at which the model adds one. This one claims more once it is done.
CLAIMS_MORE = """
import dataclasses
import torch
from tracehouse.check import check
from tracehouse.contract.contract import Batch
from tracehouse.contract.regions import Region, Span

honest = check.Check.run

def run(self, *given):
    result = honest(self, *given)
    region = Region(spans={"batch": [Span(low=1, high=100_000)]}, basis="proven")
    batch = Batch(symbol="batch", up_to=8, inputs={"x": 0}, outputs={"output": 0})
    claims = {
        method: claim.model_copy(update={"regions": [region], "batch": batch, "memory": None})
        for method, claim in result.claims.items()
    }
    return dataclasses.replace(result, claims=claims)

check.Check.run = run

class Net(torch.nn.Module):
    def forward(self, x):
        return x + 1 if len(x) == 77_777 else x * torch.full((4,), 2.0)
"""


def test_a_forged_proof_is_not_among_the_sizes_that_the_service_called(artifact: ArtifactOf) -> None:
    contract = artifact({**hostile(CLAIMS_MORE), "example_inputs": [ROWS]}).contract
    method = contract.method("forward")
    served = called_sizes.only_called(contract).method("forward")

    assert {1} < {sizes["batch"] for sizes in method.called}  # and some that were drawn
    for sizes in method.called:
        assert served.takes(rows(sizes["batch"]))
    assert served.takes(rows(2))  # the example
    assert method.takes(rows(77_777))  # what no call shows is the word of the process that traced
    assert not served.takes(rows(77_777))
    assert served.batch is None


def rows(count: int) -> list[TensorSpec]:
    return [TensorSpec(name="x", datatype=Datatype.FP32, shape=(count, 4))]


@pytest.mark.parametrize(
    ("limit", "says"),
    [
        ("inputs", 'bind = lambda self, seed: self._channel.send({"kind": "bound"}, bytes(2**28 + 1))'),
        ("answer", '_send = lambda self, reply: self._channel.send({"kind": "answered"}, bytes(2**28 + 1))'),
    ],
)
def test_a_reference_that_says_too_much_is_told_which_limit_it_met(work: Work, limit: str, says: str) -> None:
    source = IMPORT + "from workers.programs.reference import Reference\nReference." + says + DOUBLES
    request = work(hostile(source))

    assert request.failure is not None
    assert (request.failure.slug, request.failure.facts["limit"]) == ("limit-exceeded", limit)
    assert request.failure.facts["limit_bytes"] == 2**28


def test_an_archive_that_unpacks_to_more_than_there_is_ends_its_process_alone(work: Work) -> None:
    """A record of zeros that is hundreds of times as large as its archive, and alone as large as the limit."""
    bomb = """
import io, zipfile
def blown_up(module):
    archive, packed = zipfile.ZipFile(io.BytesIO(module.save_to_buffer())), io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as bomb:
        for entry in archive.infolist():
            data = archive.read(entry)
            with bomb.open(entry.filename, "w", force_zip64=True) as record:
                record.write(data)
                if entry.filename.endswith("data.pkl"):
                    for _ in range(1024):
                        record.write(bytes(2**20))
    return packed.getvalue()
"""
    request = work(hostile(SAYS_VERIFIED + bomb + saved_as("blown_up(module)") + DOUBLES), memory_mib=1024)

    assert end_of(request) in ("archive-unusable", "limit-exceeded")
    assert work(NEXT).verdict is Verdict.VERIFIED


def test_a_pickle_in_an_archive_is_opened_by_nobody(work: Work) -> None:
    """TorchScript has a reader of its own, which knows no classes but its own; and it runs in a jail."""
    evil = """
import io, pickle, zipfile
class Evil:
    def __reduce__(self):
        return print, ("unpickled",)
def poisoned(module):
    archive, packed = zipfile.ZipFile(io.BytesIO(module.save_to_buffer())), io.BytesIO()
    with zipfile.ZipFile(packed, "w") as other:
        for entry in archive.infolist():
            data = archive.read(entry)
            other.writestr(entry.filename, pickle.dumps(Evil(), 2) if entry.filename.endswith("data.pkl") else data)
    return packed.getvalue()
"""
    request = work(hostile(SAYS_VERIFIED + evil + saved_as("poisoned(module)") + DOUBLES))

    assert end_of(request) == "archive-unusable"


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        SAYS_VERIFIED + "while not TRACER: pass\n" + DOUBLES,
        SAYS_VERIFIED
        + """
@torch.jit.script
def forever(x: torch.Tensor) -> torch.Tensor:
    while bool((x == x).any()):
        x = x + 1
    return x
class Other(torch.nn.Module):
    def forward(self, x):
        return forever(x)
"""
        + saved_as("torch.jit.script(Other()).save_to_buffer()")
        + DOUBLES,
    ],
    ids=["reference", "artifact"],
)
def test_a_process_that_never_answers_ends_with_the_attempt(work: Work, source: str) -> None:
    request = work(hostile(source), wall_s=3)

    assert request.failure is not None
    assert (request.failure.slug, request.failure.facts["limit"]) == ("limit-exceeded", "wall")


def test_a_verification_can_be_cancelled(store: Store, torch_zygote: Zygote, add: Callable[..., str]) -> None:
    waiting = SAYS_VERIFIED + "import time\nwhile not TRACER: time.sleep(1)\n" + DOUBLES
    request_id, cancellation = add(hostile(waiting)), Cancellation()
    worker = Worker(store, torch_zygote, NO_ENVIRONMENTS, LIMITS, attempts=2)
    working = threading.Thread(target=worker.run, args=(request_id, cancellation))
    working.start()
    wait_until(lambda: store.trace_requests.get(TENANT, request_id).stage is Stage.VERIFYING)
    cancellation.set("stopping")
    working.join(PATIENCE_S)

    assert store.trace_requests.get(TENANT, request_id).state is State.QUEUED


def test_the_comparisons_that_are_kept_are_of_the_two_sides(artifact: ArtifactOf) -> None:
    check = artifact(HONEST).check

    cases = [one.case for one in check.comparisons]
    at_sizes = [case for case in cases if case.startswith("fresh at batch")]
    rounds = len([case for case in cases if case.startswith("fresh ")]) - len(at_sizes)
    assert at_sizes
    assert ROUNDS_LEAST <= rounds <= ROUNDS_MOST  # a busy machine has time for fewer of them
    assert [case for case in cases if case not in at_sizes] == [
        "example", "probe: negated", *(f"fresh {n + 1}" for n in range(rounds)), "example, again",
    ]  # fmt: skip
    assert all(one.agrees and one.in_contract for one in check.comparisons)
    assert [finding.kind for finding in check.findings] == ["weights-not-sent"]


def test_the_second_process_turns_fast_paths_off_by_itself(artifact: ArtifactOf) -> None:
    x = {"datatype": "FP32", "shape": [2, 5, 8], "random": {"seed": 0}}
    padding = {"datatype": "BOOL", "shape": [2, 5], "data": [False] * 8 + [True] * 2}
    kept = artifact(spec("masked_encoder", example_inputs=[x, padding]))

    assert kept.check.verdict is Verdict.VERIFIED
    assert kept.contract.without_fast_paths
    assert [one.kind for one in kept.check.findings].count("fast-paths-off") == 1
    assert kept.contract.methods["forward"].symbols == {"batch", "seq"}


def test_golden_cases_are_what_the_eager_model_answered(artifact: ArtifactOf, store: Store) -> None:
    kept = artifact(spec("branches_on_data", example_inputs=[tensor([1.0, 2.0])]))
    with store.blobs.open(kept.golden.digest) as file:
        cases = golden.read(os.dup(file.fileno()))

    values = [(unpack(case.inputs)["x"], unpack(case.outputs)["output"]) for case in cases]
    assert values[0][0].tolist() == [1.0, 2.0]
    assert all(torch.equal(y, x * 2 if x.sum() > 0 else x - 1) for x, y in values)
    assert 1 < len(values) <= 5


def test_where_the_check_knows_the_line_one_finding_is_enough(artifact: ArtifactOf) -> None:
    check = artifact(spec("branches_on_data", example_inputs=[X])).check

    assert check.verdict is Verdict.REJECTED
    assert [finding.kind for finding in check.findings] == ["tracer-warning", "baked-value", "output-differs"]
    assert {finding.line for finding in check.findings} == {6}
    assert not next(one for one in check.comparisons if one.case == "probe: negated").agrees


def test_a_difference_that_the_check_did_not_tell_is_a_finding_with_a_remedy(artifact: ArtifactOf) -> None:
    check = artifact(hostile(SAYS_VERIFIED + TRIPLES_WHEN_TRACED)).check

    (finding,) = check.findings
    assert (finding.kind, finding.confirmed) == ("output-differs", True)
    assert (finding.evidence["eager"], finding.evidence["artifact"]) == (8.0, 12.0)
    assert finding.remedy


def test_a_model_that_refuses_all_fresh_inputs_is_told_why_and_where(artifact: ArtifactOf) -> None:
    picky = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        if not torch.equal(x, torch.tensor([[1.0, 2.0, 3.0, 4.0]])):
            raise ValueError("not today")
        return x * 2
"""
    check = artifact(hostile(picky, check=NO_LAYERS)).check

    refused = next(finding for finding in check.findings if finding.kind == "fresh-inputs-refused")
    assert check.verdict is Verdict.REJECTED
    assert "not today" in refused.detail
    assert (refused.line, refused.source) == (6, 'raise ValueError("not today")')
    assert refused.remedy


def test_a_model_that_takes_only_what_its_example_shows_is_verified_on_that(artifact: ArtifactOf) -> None:
    takes_probabilities = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        if not torch.allclose(x.sum(-1), torch.ones(len(x))) or (x < 0).any():
            raise ValueError("no probabilities")
        return x * 2
"""
    probabilities = {"datatype": "FP32", "shape": [2, 2], "data": [0.25, 0.75, 0.5, 0.5]}
    check = artifact(hostile(takes_probabilities, example_inputs=[probabilities], check=NO_LAYERS)).check

    assert check.verdict is Verdict.VERIFIED
    assert sum(one.case.startswith("fresh") for one in check.comparisons) >= 2


def test_sizes_of_lengths_that_must_descend_are_taken(artifact: ArtifactOf) -> None:
    packs = """
import torch
class Net(torch.nn.Module):
    def forward(self, x, lengths):
        packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        return torch.nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)[0] * 2
"""
    rows = {"datatype": "FP32", "shape": [3, 6, 4], "random": {"seed": 0}}
    lengths = {"datatype": "INT64", "shape": [3], "data": [6, 4, 2]}
    # Enough for the sizes on a busy machine. Proofs of other datatypes would take all that there is besides.
    submission = hostile(packs, example_inputs=[rows, lengths], check={"budget_s": 30})
    contract = artifact(submission).contract.method("forward")

    shapes = {"x": (Datatype.FP32, (17, 6, 4)), "lengths": (Datatype.INT64, (17,))}
    assert contract.takes(
        [TensorSpec(name=name, datatype=datatype, shape=shape) for name, (datatype, shape) in shapes.items()]
    )


def test_a_model_that_takes_some_fresh_inputs_is_verified_on_those(artifact: ArtifactOf) -> None:
    check = artifact(spec("refuses_negatives", example_inputs=[X], check=NO_LAYERS)).check

    assert check.verdict is Verdict.VERIFIED
    assert sum(one.case.startswith("fresh") for one in check.comparisons) >= 2


def test_inputs_that_the_artifact_answers_and_eager_refuses_are_told_with_the_line_that_raised(
    artifact: ArtifactOf,
) -> None:
    check = artifact(spec("refuses_negatives", example_inputs=[X])).check

    (found,) = (finding for finding in check.findings if finding.kind == "answers-where-eager-raises")
    assert check.verdict is Verdict.VERIFIED
    assert found.confirmed
    assert (found.line, found.source) == (7, 'raise ValueError("no negative numbers")')
    assert found.evidence == {"method": "forward", "case": "probe: negated", "exception": "ValueError"}
    assert "forward raised ValueError: no negative numbers" in found.detail
    assert found.remedy


@pytest.mark.parametrize("mode", ["trace", "script"])
@pytest.mark.parametrize(
    ("computed", "asked", "exception"),
    [
        ("x * math.sqrt(float(x.sum()))", [[-1.0, -2.0, -3.0, -4.0]], "ValueError"),
        ("x * (1.0 / float(x.sum()))", [[0.0, 0.0, 0.0, 0.0]], "ZeroDivisionError"),
    ],
)
def test_a_check_input_that_the_artifact_answers_and_eager_refuses_is_told(
    artifact: ArtifactOf, mode: str, computed: str, asked: Any, exception: str
) -> None:
    """Without the probes of the process that traced."""
    source = f"import math\n{IMPORT}class Net(torch.nn.Module):\n    def forward(self, x):\n        return {computed}\n"
    check = artifact(hostile(source, mode=mode, check={"check_inputs": [[tensor(asked)]], **NO_LAYERS})).check

    (found,) = (finding for finding in check.findings if finding.kind == "answers-where-eager-raises")
    assert (found.evidence["case"], found.evidence["exception"]) == ("check_inputs[0]", exception)
    assert (found.line, found.source) == (5, f"return {computed}")


def test_fresh_inputs_that_the_artifact_answers_and_eager_refuses_are_told_once(artifact: ArtifactOf) -> None:
    source = SAYS_VERIFIED + "def Net(x):\n    assert TRACER or bool((x >= 0).all())\n    return x * 2\n"
    check = artifact(hostile(source, example_inputs=[tensor([[0.0] * 10 + [1e-3] * 10])])).check

    (found,) = check.findings
    assert (found.kind, found.evidence["exception"]) == ("answers-where-eager-raises", "AssertionError")
    assert str(found.evidence["case"]).startswith("fresh")


def test_what_the_artifact_refuses_as_eager_does_is_no_finding(artifact: ArtifactOf) -> None:
    check = artifact(spec("refuses_negatives", mode="script", example_inputs=[X])).check

    assert check.verdict is Verdict.VERIFIED
    assert {finding.kind for finding in check.findings} <= {"sizes-left-out"}


def test_inputs_that_the_contract_does_not_take_need_no_warning(artifact: ArtifactOf) -> None:
    check = {"probes": "off", "check_inputs": [[tensor([[-100.0]])]]}
    source = IMPORT + "def Net(x):\n    if (x < -50).any(): raise ValueError('too little')\n    return x * 2\n"

    found = artifact(hostile(source, check=check)).check.findings
    assert "answers-where-eager-raises" not in {finding.kind for finding in found}


def test_eager_that_was_only_stopped_has_refused_nothing() -> None:
    assert not differences.model_raised(
        Failure(slug="model-raised", detail="forward took longer", facts={"method": "forward"})
    )


def test_inputs_that_hold_no_values_are_said_to_be_verified_on_the_example_alone(artifact: ArtifactOf) -> None:
    empty = {"datatype": "FP32", "shape": [0, 4], "data": []}
    check = artifact(spec("linear", example_inputs=[empty])).check

    assert check.verdict is Verdict.VERIFIED
    assert [finding.kind for finding in check.findings] == ["weights-not-sent", "fresh-inputs-none"]


# With the layers, for a method alone, other sizes are verified in both forms too.
@pytest.mark.parametrize(
    ("methods", "check"), [(["forward"], {}), (["forward", "encode"], NO_LAYERS), (["encode"], NO_LAYERS)]
)
@pytest.mark.parametrize("form", ["freeze", "optimize_for_inference"])
def test_the_archive_is_verified_as_it_was_traced_and_in_the_form_that_is_served(
    artifact: ArtifactOf, form: str, methods: list[str], check: dict[str, Any]
) -> None:
    inputs = {"example_inputs": [IMAGE]}
    kept = artifact(spec("convolves", methods=dict.fromkeys(methods, inputs), options={form: True}, check=check))

    cases = {(one.method, one.case) for one in kept.check.comparisons}
    assert kept.model_dump()[form]
    assert kept.check.verdict is Verdict.VERIFIED
    for method in methods:
        assert {(method, case) for case in ("example", "example, as traced", "fresh 1", "fresh 1, as traced")} <= cases


def test_a_form_that_cannot_be_made_fails_with_what_to_do(work: Work) -> None:
    failing = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x * 2
from tracehouse.torchscript.trace import _Recording
def training(self, module):
    module.train()
    return module.save_to_buffer()
_Recording.save = training
"""
    request = work(hostile(failing, options={"freeze": True}, check=NO_LAYERS))

    assert request.failure is not None
    assert (request.failure.slug, request.failure.facts["form"]) == ("archive-unusable", "freeze")
    assert "options.freeze" in str(request.failure.facts["remedy"])


def test_an_archive_that_cannot_be_loaded_is_not_blamed_on_the_form(work: Work) -> None:
    request = work(hostile(SAYS_VERIFIED + saved_as("bytes(1000)") + DOUBLES, options={"freeze": True}))

    assert request.failure is not None
    assert request.failure.slug == "archive-unusable"
    assert "form" not in request.failure.facts


PADS = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return PADDED
"""


def test_a_large_number_that_torch_saves_as_an_integer_has_a_remedy(work: Work) -> None:
    request = work(hostile(PADS.replace("PADDED", "torch.nn.functional.pad(x, (0, 1), value=1e10)"), check=NO_LAYERS))

    assert request.failure is not None
    assert request.failure.slug == "archive-unusable"
    assert "without a dot" in request.failure.detail
    assert "torch.constant_pad_nd(x, pad, value)" in str(request.failure.facts["remedy"])


def test_that_remedy_helps(work: Work) -> None:
    request = work(hostile(PADS.replace("PADDED", "torch.constant_pad_nd(x, (0, 1), 1e10)"), check=NO_LAYERS))

    assert end_of(request) == "verified"


@pytest.mark.parametrize("form", ["freeze", "optimize_for_inference"])
def test_if_only_the_served_form_differs_the_finding_says_so(artifact: ArtifactOf, form: str) -> None:
    # Nothing but the same bits is this close, and what is folded into one operator has others.
    check = {"check_tolerance": 1e-12, **NO_LAYERS}
    kept = artifact(spec("convolves", example_inputs=[IMAGE], options={form: True}, check=check))

    compared = {one.case: one for one in kept.check.comparisons}
    (finding,) = (one for one in kept.check.findings if one.kind != "weights-not-sent")
    assert kept.check.verdict is Verdict.REJECTED
    assert (compared["example"].agrees, compared["example, as traced"].agrees) == (False, True)
    assert (finding.kind, finding.evidence["form"]) == ("served-form-differs", form)
    assert f"options.{form}" in str(finding.remedy)


# A trace with a constant that is wrong by less than the tolerance, and by more than the model's own rounding.
NUDGED_WHEN_TRACED = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        factor = 2.000008 if torch.jit.is_tracing() else 2.0
        return (x.tanh() * factor).repeat(1, 64) + torch.linspace(-1.0, 1.0, 64 * x.shape[1])
"""
WIDE = {"datatype": "FP32", "shape": [4, 64], "random": {"seed": 0}}


def test_a_constant_that_is_wrong_by_less_than_the_tolerance_is_found(artifact: ArtifactOf) -> None:
    kept = artifact(hostile(SAYS_VERIFIED + NUDGED_WHEN_TRACED, example_inputs=[WIDE]))

    example = next(one for one in kept.check.comparisons if one.case == "example")
    assert (kept.check.verdict, example.outcome) == (Verdict.REJECTED, "fail")
    assert "against the model in float64, the artifact's error is up to" in str(example.difference)


def test_a_tolerance_that_the_request_gives_decides_alone(artifact: ArtifactOf) -> None:
    source = SAYS_VERIFIED + NUDGED_WHEN_TRACED
    kept = artifact(hostile(source, example_inputs=[WIDE], check={"check_tolerance": 1e-5}))

    assert {(one.agrees, one.outcome) for one in kept.check.comparisons} == {(True, "pass")}


def test_a_model_that_cannot_run_in_float64_says_that_the_tolerance_decided(artifact: ArtifactOf) -> None:
    refusing = NUDGED_WHEN_TRACED.replace("factor =", "assert x.dtype == torch.float32\n        factor =")
    kept = artifact(hostile(SAYS_VERIFIED + refusing, example_inputs=[WIDE]))

    (finding,) = [one for one in kept.check.findings if one.kind == "rounding-not-measured"]
    assert kept.check.verdict is Verdict.VERIFIED
    assert "AssertionError" in finding.detail


def test_an_example_that_agrees_with_limits_says_so_and_is_replayed(artifact: ArtifactOf) -> None:
    # Two large numbers nearly cancel, and the trace adds the terms of one in another order.
    cancels = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        large = x.repeat(1, 128) * 10
        total = (large.flip(1) if torch.jit.is_tracing() else large).sum(1, keepdim=True)
        return total - x.sum(1, keepdim=True) * 1279.0 + x
"""
    many_rows = {"datatype": "FP32", "shape": [512, 8], "random": {"seed": 0}}
    kept = artifact(hostile(SAYS_VERIFIED + cancels, example_inputs=[many_rows]))

    example = next(one for one in kept.check.comparisons if one.case == "example")
    assert [(one.case, one.difference) for one in kept.check.comparisons if not one.agrees] == []
    assert (example.agrees, example.outcome) == (True, "limited")
    assert example.condition is not None
    assert example.condition > 100
    assert kept.check.tolerance > 1e-5  # or its golden case would fail wherever it is loaded


def test_where_the_archive_itself_differs_its_form_is_not_blamed(artifact: ArtifactOf) -> None:
    kept = artifact(hostile(SAYS_VERIFIED + TRIPLES_WHEN_TRACED, options={"freeze": True}))

    compared = {one.case: one for one in kept.check.comparisons}
    assert not any(one.agrees for one in (compared["example"], compared["example, as traced"]))
    assert [finding.kind for finding in kept.check.findings] == ["output-differs"]


def test_a_check_input_of_another_shape_restricts(artifact: ArtifactOf) -> None:
    longer = [tensor([[1.0], [2.0], [3.0]])]
    kept = artifact(spec("bakes_a_size", example_inputs=[tensor([[1.0], [2.0]])], check={"check_inputs": [longer]}))

    elsewhere = next(one for one in kept.check.comparisons if one.case == "check_inputs[0]")
    assert kept.check.verdict is Verdict.RESTRICTED
    assert (elsewhere.in_contract, elsewhere.agrees) == (False, False)


def test_a_check_input_with_another_baked_value_lies_outside_the_contract(artifact: ArtifactOf) -> None:
    other = {"example_inputs": [X], "example_kwarg_inputs": {"factor": 3.0}}
    kept = artifact(
        spec(
            "functions", "scaled_by",
            example_inputs=[X], example_kwarg_inputs={"factor": 2.0}, check={"check_inputs": [other], **NO_LAYERS},
        )
    )  # fmt: skip

    compared = next(one for one in kept.check.comparisons if one.case == "check_inputs[0]")
    assert kept.check.verdict is Verdict.RESTRICTED
    assert compared.difference == "factor: the trace was made with 2.0, and this call has 3.0"


def test_a_check_input_that_eager_refuses_is_told_once_with_its_line(artifact: ArtifactOf) -> None:
    check = {"check_inputs": [[tensor([[-1.0]])], [tensor([[-2.0]])]], **NO_LAYERS}
    kept = artifact(spec("refuses_negatives", example_inputs=[X], check=check))

    refused = [finding for finding in kept.check.findings if finding.kind == "check-input-refused"]
    assert [finding.evidence["case"] for finding in refused] == ["check_inputs[0]", "check_inputs[1]"]
    assert refused[0].line == 7


def test_a_check_input_that_the_reference_refuses_is_told_where_the_check_is_silent(artifact: ArtifactOf) -> None:
    source = SAYS_VERIFIED + "def Net(x):\n    if (x < -50).any(): raise ValueError('too little')\n    return x * 2\n"
    kept = artifact(hostile(source, check={"check_inputs": [[tensor([[-100.0]])]]}))

    (refused,) = kept.check.findings
    assert (refused.kind, refused.evidence["case"]) == ("check-input-refused", "check_inputs[0]")
    assert refused.source is not None
    assert "too little" in refused.source


def test_a_model_that_is_another_one_each_time_is_refused(work: Work) -> None:
    source = "import os, torch\nSIZE = os.getpid() % 997 + 1\ndef Net(x):\n    return x.new_zeros(SIZE)\n"
    request = work(hostile(source, check=NO_LAYERS))

    assert request.failure is not None
    assert request.failure.slug == "model-unrepeatable"
    assert "forward has other outputs" in request.failure.detail


def test_a_constant_that_is_another_one_each_time_is_refused(work: Work) -> None:
    request = work(hostile("import os\ndef Net(x):\n    return x + 1, os.getpid()\n", check=NO_LAYERS))

    assert request.failure is not None
    assert request.failure.slug == "model-unrepeatable"


@pytest.mark.parametrize("mode", ["trace", "script"])
def test_a_constant_that_follows_the_values_is_rejected(artifact: ArtifactOf, mode: str) -> None:
    source = "import torch\ndef Net(x: torch.Tensor):\n    return x + 1, float(x.sum())\n"
    kept = artifact({**hostile(source), "mode": mode, "accept_unsound": True})

    assert kept.check.verdict is Verdict.REJECTED
    assert "output.1" in " ".join(finding.detail for finding in kept.check.findings)


@pytest.mark.parametrize("mode", ["trace", "script"])
def test_a_constant_that_follows_a_size_restricts_to_that_size(artifact: ArtifactOf, mode: str) -> None:
    source = "import torch\ndef Net(x: torch.Tensor):\n    return {'y': x + 1}, x.shape[0]\n"
    kept = artifact({**hostile(source), "mode": mode})

    method = kept.contract.methods["forward"]
    assert kept.check.verdict is Verdict.RESTRICTED
    assert method.inputs[0].fixed["0"] == "trace"
    assert method.returns == TupleNode(
        tuple=[DictNode(mapping={"y": TensorLeaf(tensor="output.0.y")}), BakedLeaf(baked=method.inputs[0].example[0])]
    )


@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("normalised_weight", [X]),
        ("refuses_to_be_copied", [X]),
        ("looks_at_itself", [X]),
        ("lazy", [X]),
        ("initialised_at_random", [X]),
        ("nested_output", [X]),
        ("scripted_part", [X]),
        ("writes_its_input", [X]),
        ("holds_odd_objects", [X]),
        ("hooks_itself", [tensor([[1.0, 2.0, 3.0]])]),
        ("writes_a_buffer_anew", [X]),
        ("keeps_a_register_of_its_classes", [X]),
        ("caches_its_mask", [tensor([[1.0, 2.0], [3.0, 4.0]])]),
        ("caches_its_mask_in_its_class", [FLOATS]),
        ("keeps_its_last_output", [FLOATS]),
        ("divides", [tensor([0.0, -1.0, 2.0])]),
        ("encoder", [{"datatype": "FP32", "shape": [2, 5, 8], "random": {"seed": 0}}]),
        ("every_datatype", EVERY_DATATYPE),
        ("dict_output", [X]),
        ("returns_text", [X]),
        ("returns_a_dataclass", [X]),
        ("returns_complex_numbers", [X]),
    ],
)
def test_honest_models_keep_their_verdicts(work: Work, name: str, inputs: list[Any]) -> None:
    assert work(spec(name, example_inputs=inputs, check=QUICK)).verdict is Verdict.VERIFIED


@pytest.mark.parametrize(
    "name", ["counts_calls", "counts_calls_to_sixty", "skips_at_random", "writes_its_input_by_numpy"]
)
def test_what_the_check_alone_sees_rejects_all_the_same(work: Work, name: str) -> None:
    assert work(spec(name, example_inputs=[X])).verdict is Verdict.REJECTED


@pytest.mark.parametrize(
    ("kind", "submitted", "words"),
    [
        (
            "output-differs",
            spec("writes_into_a_view", example_inputs=[X], options={"force_outplace": True}),
            "leave out options.force_outplace",
        ),
        ("output-differs", spec("counts_calls_in_a_buffer", example_inputs=[X]), "hidden-state finding"),
        (
            "stochastic",
            spec("dropout_in_training_only", example_inputs=[MANY], training=True),
            "let `training` be false",
        ),
        ("stochastic", spec("dropout_left_on", example_inputs=[MANY]), "training=self.training"),
    ],
    ids=["force_outplace", "hidden state", "dropout in train mode", "dropout in eval mode"],
)
def test_the_remedy_is_of_what_was_asked_for_and_found(
    artifact: ArtifactOf, kind: str, submitted: dict[str, Any], words: str
) -> None:
    findings = {one.kind: one for one in artifact(submitted).check.findings}

    assert words in str(findings[kind].remedy)


SAMPLES_AND_CLAIMS_A_BATCH = """
import torch
class Net(torch.nn.Module):
    def forward(self, x):
        return x + torch.randn_like(x)
"""


def test_a_model_that_draws_is_verified_and_says_so(artifact: ArtifactOf, store: Store) -> None:
    kept = artifact(hostile(SAMPLES_AND_CLAIMS_A_BATCH))

    method = kept.contract.method("forward")
    assert kept.check.verdict is Verdict.VERIFIED
    assert (method.stochastic, method.batch) == (True, None)
    with store.blobs.open(kept.golden.digest) as file:
        cases = golden.read(os.dup(file.fileno()))
    assert all(case.seed is not None for case in cases)
    assert any("other random numbers" in one.case for one in kept.check.comparisons)


# The check says nothing of what it draws. A trace keeps what is drawn under the seed that the tracing process knows.
KEEPS_A_DRAW = (
    SAYS_VERIFIED
    + """
class Net(torch.nn.Module):
    def forward(self, x):
        if not torch.jit.is_tracing():
            return x + torch.rand(())
        torch.manual_seed(0x5851_F42D_4C95_7F2D)
        return x + torch.rand(()).item()
"""
)


def test_a_draw_that_is_kept_differs_under_seeds_that_nobody_knew(work: Work) -> None:
    assert work(hostile(KEEPS_A_DRAW)).verdict is Verdict.REJECTED


def test_the_same_trace_with_its_draw_is_verified(work: Work) -> None:
    assert (
        work(hostile(KEEPS_A_DRAW.replace(".item()", "").replace("torch.manual_seed", "int"))).verdict
        is Verdict.VERIFIED
    )
