"""Mode eager: the model runs on its inputs as it stands, and nothing is traced."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from service.domain.eager_outputs import EagerCall, EagerOutputs
from service.domain.trace_request import State, TraceRequest
from service.sandbox.cancellation import Cancellation
from service.sandbox.zygote import Zygote
from service.storage.database import Store
from tests.conftest import NO_ENVIRONMENTS, PATIENCE_S, TENANT, wait_until
from tests.submissions import spec, tensor
from tests.workers.conftest import LIMITS, Work
from tracehouse.tensors.tensor import Tensor, unpack
from workers.worker import Worker

X, Y = tensor([[1.0, 2.0, 3.0, 4.0]]), tensor([[2.0, 4.0]])


def eager(name: str, **members: Any) -> dict[str, Any]:
    return spec(name, **{"mode": "eager", "example_inputs": [X], **members})


def kept(store: Store, request: TraceRequest) -> list[tuple[EagerCall, list[Tensor]]]:
    assert request.state is State.SUCCEEDED, request.failure
    assert request.outputs is not None
    with store.blobs.open(request.outputs.digest) as file:
        outputs = EagerOutputs(file)
        return [(call, list(outputs.outputs(place))) for place, call in enumerate(outputs.calls)]


def log(store: Store, request: TraceRequest) -> str:
    return "".join(store.events.log(TENANT, request.id))


def test_every_call_is_run_the_check_inputs_too_and_nothing_is_traced(work: Work, store: Store) -> None:
    request = work(eager("scripts_a_function", check={"check_inputs": [[Y], {"example_inputs": [Y, 4.0]}]}))

    calls = kept(store, request)
    assert [(call.method, call.case) for call, _ in calls] == [
        ("forward", "example"),
        ("forward", "check_inputs[0]"),
        ("forward", "check_inputs[1]"),
    ]
    assert [unpack(half.datatype, half.data) for _, (half,) in calls] == [[0.5, 1, 1.5, 2], [1, 2], [4, 8]]
    assert (request.verdict, request.artifacts, request.model, request.findings) == (None, [], None, [])


def test_what_is_no_tensor_stands_among_the_outputs_as_a_constant(work: Work, store: Store) -> None:
    ((call, _),) = kept(store, work(eager("scripts_a_function")))

    assert call.returns.model_dump() == {
        "mapping": {
            "half": {"tensor": "output.half"},
            "scale": {"baked": 1.0},
            "names": {"baked": ["a", None]},
        }
    }


def test_functions_that_the_source_scripts_run_as_python(work: Work, store: Store) -> None:
    # From torch 2.14 on, torch says before it that torch.jit.script, which the source calls, is deprecated.
    assert log(store, work(eager("scripts_a_function"))).endswith("ran as function\n")


def test_watchers_see_what_is_printed_and_an_end_without_a_verdict(work: Work, store: Store) -> None:
    request = work(eager("prints"))
    events = store.events.after(TENANT, request.id, 0, 100)

    assert [event.data["stage"] for event in events if event.kind == "stage"] == ["queued", "loading", "storing"]
    assert log(store, request).startswith("imported\ncalled \\x1b[2J\n")
    assert events[-1].data == {"state": "succeeded", "verdict": None}


def test_a_model_that_raises_fails_with_its_line_and_the_whole_traceback_in_the_log(work: Work, store: Store) -> None:
    request = work(eager("raises_in_forward"))

    assert request.failure is not None
    assert (request.state, request.failure.slug, request.failure.facts["line"]) == (State.FAILED, "model-raised", 9)
    lines = log(store, request).splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert [line.strip().split(",")[0] for line in lines if line.startswith("  File")] == [
        'File "torch/nn/modules/module.py"',
        'File "torch/nn/modules/module.py"',
        'File "raises_in_forward.py"',
        'File "raises_in_forward.py"',
    ]
    assert request.failure.facts["source"] in [line.strip() for line in lines]
    assert lines[-1] == f"{request.failure.facts['exception']}: {request.failure.facts['message']}"


def test_source_that_cannot_be_imported_says_why_in_the_log(work: Work, store: Store) -> None:
    source = {"files": {"net.py": "import torch\n\n1 / 0\n"}, "entrypoint": "net:Net"}
    request = work({**eager("linear"), "source": source})

    assert request.failure is not None
    assert request.failure.slug == "source-raised"
    assert log(store, request).splitlines()[1:] == [
        '  File "net.py", line 3, in <module>',
        "    1 / 0",
        "    ~~^~~",
        "ZeroDivisionError: division by zero",
    ]


@pytest.mark.parametrize(
    ("name", "slug", "facts"),
    [
        ("exits", "model-exited", {"line": 8}),
        ("exits_hard", "model-exited", {"exit_status": 3}),
        ("segfaults", "model-crashed", {"signal": "SIGSEGV"}),
        ("closes_its_channel", "model-exited", {"exit_status": 0}),
    ],
)
def test_however_model_code_ends_the_request_says_it(work: Work, name: str, slug: str, facts: dict[str, Any]) -> None:
    request = work(eager(name))

    assert request.failure is not None
    assert (request.state, request.failure.slug) == (State.FAILED, slug)
    assert request.failure.facts.items() >= facts.items()


def test_what_has_no_name_of_its_own_cannot_be_told(work: Work) -> None:
    request = work(eager("two_outputs_of_one_name"))

    assert request.failure is not None
    assert (request.state, request.failure.slug) == (State.FAILED, "unsupported-output")


def returning(value: str) -> dict[str, Any]:
    source = f"import torch\ndef net(x):\n    return {value}\n"
    return {**eager("linear"), "source": {"files": {"net.py": source}, "entrypoint": "net:net"}}


@pytest.mark.parametrize(
    ("value", "slug", "output"),
    [
        ("{'y': torch.ones(2, device='meta')}", "output-without-values", "output.y"),
        ("(x, x.to_sparse())", "output-without-datatype", "output.1"),
        ("{'y': x, 'n': 2**100}", "output-not-json", "output.n"),
        ("[x, 10**10000]", "output-not-json", "output.1"),
        ("[x, '\\ud800']", "output-not-json", "output.1"),
        ("{'\\ud800': x}", "output-not-json", "output.\\ud800"),
        ("{'y': x, '\\ud800': {}}", "output-not-json", "output.\\ud800"),
        ("{'y': x, 'deep': [{'\\ud800': 1}]}", "output-not-json", "output.deep.0.\\ud800"),
        ("(x, type('Shy', (), {'__repr__': lambda self: 1 / 0})())", "output-not-json", "output.1"),
    ],
)
def test_an_output_that_cannot_be_told_is_refused_by_its_name(work: Work, value: str, slug: str, output: str) -> None:
    request = work(returning(value))

    assert request.failure is not None
    assert (request.failure.slug, request.failure.facts.get("output")) == (slug, output)


def test_an_object_is_told_without_its_address_in_memory(work: Work, store: Store) -> None:
    ((call, _),) = kept(store, work(returning("(x, (n for n in x), {object(): [print, object()]}, {object(): x})")))

    assert call.returns.model_dump()["tuple"][1:] == [
        {"baked": "<generator object net.<locals>.<genexpr>>"},
        {"baked": {"<object>": ["<built-in function print>", "<object>"]}},
        {"mapping": {"<object>": {"tensor": "output.3.<object>"}}},
    ]


def test_what_is_a_number_or_text_by_inheritance_is_told_as_one(work: Work, store: Store) -> None:
    numbers = "[__import__('numpy').float64(1.5), __import__('enum').IntEnum('Mode', 'FAST').FAST, float('nan'), 2**63]"
    ((call, _),) = kept(store, work(returning(f"(x, {numbers})")))

    assert call.returns.model_dump()["tuple"][1] == {"baked": [1.5, 1, "nan", 2**63]}


def test_it_can_be_cancelled_and_is_watched_meanwhile(
    store: Store, torch_zygote: Zygote, add: Callable[..., str]
) -> None:
    request_id, cancellation = add(eager("hangs_aloud")), Cancellation()
    working = threading.Thread(
        target=Worker(store, torch_zygote, NO_ENVIRONMENTS, LIMITS, 2).run, args=(request_id, cancellation)
    )
    working.start()
    wait_until(lambda: bool(log(store, store.trace_requests.get(TENANT, request_id))))

    store.trace_requests.cancel(TENANT, request_id)
    cancellation.set("cancelled")
    working.join(PATIENCE_S)

    request = store.trace_requests.get(TENANT, request_id)
    assert (request.state, request.outputs, working.is_alive()) == (State.CANCELLED, None, False)


@pytest.mark.slow
def test_the_wall_clock_ends_it(work: Work) -> None:
    request = work(eager("hangs"), wall_s=0.3)

    assert request.failure is not None
    assert (request.failure.slug, request.failure.facts["limit"]) == ("limit-exceeded", "wall")
