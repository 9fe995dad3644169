"""What torch's documentation says cannot be traced, and what happens daily: a named problem, the line, what to do."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from service.domain.trace_request import State
from tests.submissions import tensor
from tests.workers.conftest import Told, Work
from tracehouse.errors import by_slug

Run = Callable[..., Told]
X = tensor([[1.0, 2.0, 3.0, 4.0], [-1.0, 0.5, 0.0, 2.0]])

HEAD = "import threading\nimport torch\nfrom torch import nn\n"  # the lines below begin at 4


def submitted(text: str, **members: Any) -> dict[str, Any]:
    source = {"files": {"net.py": HEAD + text}, "entrypoint": "net:Net"}
    return {"model": "net", "source": source, **({"example_inputs": [X]} | members)}


def forward(*lines: str, init: str = "pass") -> str:
    """A module whose `forward` begins at line 9."""
    body = "\n        ".join(lines)
    return (
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        {init}\n    def forward(self, x):\n        {body}\n"
    )


CALLS_PYTHON = """class Part(nn.Module):
    @torch.jit.ignore
    def helper(self, x):
        return x * 2
    def forward(self, x):
        return self.helper(x)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.jit.script(Part())
    def forward(self, x):
        return self.part(x)
"""
TIED = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.again = self.weight
    def forward(self, x):
        return x * self.weight * self.again
"""
TIED_BUFFER = """class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(4))
        self.register_buffer("again", self.scale)
    def forward(self, x):
        return x * self.scale * self.again
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()
    def forward(self, x):
        return self.part(x)
"""
HOOKED = """def hook(module, grad_input, grad_output):
    return None
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 3)
        self.layer.register_full_backward_hook(hook)
    def forward(self, x):
        return self.layer(x)
"""
CLOSES_OVER_A_LAYER = """layer = nn.Linear(4, 3)
def Net(x):
    return layer(x) + 1
"""
TRACES_A_METHOD = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = torch.jit.trace(self.encode, torch.ones(2, 4))
    def encode(self, x):
        return x * 2
    def forward(self, x):
        return self.part(x)
"""
CANNOT_BE_MADE_TWICE = """made = []
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()
        if made:
            raise RuntimeError("there can be only one")
        made.append(1)
    def forward(self, x):
        return x
"""

# What is submitted, the problem, the line, and a word of the remedy.
REFUSED: dict[str, tuple[dict[str, Any], str, int | None, str]] = {
    "a tensor that requires grad and is no parameter": (
        submitted(forward("return x * self.w", init="self.w = torch.ones(4, requires_grad=True)")),
        "constant-requires-grad", 9, "detach",
    ),
    "a layer in a plain list": (
        submitted(forward("return self.layers[0](x)", init="self.layers = [nn.Linear(4, 3)]")),
        "constant-requires-grad", 9, "__init__",
    ),
    "a function that closes over a layer": (
        submitted(CLOSES_OVER_A_LAYER), "constant-requires-grad", 6, "write the function as an nn.Module",
    ),
    "one parameter under two names": (submitted(TIED), "shared-parameters", 8, "under one"),
    "one buffer under two names, in a part": (submitted(TIED_BUFFER), "shared-parameters", 8, "under one"),
    "a backward hook": (submitted(HOOKED), "backward-hooks", 4, "remove it"),
    "a scripted part that calls Python": (
        submitted(CALLS_PYTHON), "python-function-called", 9, "remove @torch.jit.ignore",
    ),
    "torch.jit.trace of a method": (submitted(TRACES_A_METHOD), "method-traced-as-function", 7, "trace_module"),
    "torch.jit.trace in forward": (
        submitted(forward("return torch.jit.trace(torch.relu, x)(x)")), "tracing-nested", 9, "forward",
    ),
    "torch.jit.trace of a function in forward": (
        submitted(forward("return torch.jit.trace(lambda y: y * 2, x)(x)")), "tracing-nested", 9, "forward",
    ),
    "a scripted module that is no part": (
        submitted("part = torch.jit.script(nn.Linear(4, 3))\nclass Net(nn.Module):\n"
                  "    def forward(self, x):\n        return part(x)\n"),
        "module-not-registered", 7, "ModuleList",
    ),
    "a part that torch.compile made": (
        submitted(forward("return self.f(x)", init="self.f = torch.compile(torch.sin, backend='eager')")),
        "compiled-model", 9, "without torch.compile",
    ),
    "nothing but a number": (submitted(forward("return 3")), "output-not-tensor", 8, "tensor"),
    "a quantised output": (
        submitted(forward("return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)")),
        "output-without-datatype", 8, "dequantize",
    ),
    "a sparse output": (submitted(forward("return x.to_sparse()")), "output-without-datatype", 8, "to_dense"),
    "an output on meta": (submitted(forward("return x.to('meta')")), "output-without-values", 8, "inputs' device"),
    "a dict of a tensor and a tuple, returned": (
        submitted(forward("return {'a': x * 2, 'b': (x, x)}"), options={"strict": False}),
        "mixed-output", 8, "NamedTuple",
    ),
    "a dict of a tensor and a list, taken": (
        submitted(forward("return x['a'] + x['b'][0]"), example_inputs=[{"a": X, "b": [X]}]),
        "mixed-input", 8, "argument for each",
    ),
    "a dict of dicts, returned": (
        submitted(forward("return {'a': {'b': x * 2}}"), options={"strict": False}),
        "unsupported-dict", 8, "NamedTuple",
    ),
    "an output that is resized": (
        submitted(forward("y = x.clone()", "return y.resize_(4, 2)")), "output-not-traced", 8, "resize_",
    ),
    "a GPU that is not there": (submitted(forward("return x.cuda()")), "device-not-found", 9, "x.device"),
    "a parameter on a GPU that is not there": (
        submitted(forward("return x", init="self.w = torch.ones(4, device='cuda')")), "device-not-found", 7, "x.device",
    ),
    "a constant on meta": (
        submitted(forward("return x + torch.ones(4, device='meta')")), "devices-differ", 9, "device=x.device",
    ),
    "a layer on meta": (
        submitted(forward("return self.layer(x)", init="self.layer = nn.Linear(4, 3, device='meta')")),
        "devices-differ", 9, "to_empty",
    ),
    "a model that cannot be copied, nor made again": (
        submitted(CANNOT_BE_MADE_TWICE), "model-not-copyable", 10, "locks",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_it_is_a_problem_of_its_own_with_the_line_and_what_to_do(run: Run, case: str) -> None:
    request, slug, line, remedy = REFUSED[case]
    failure = run(request).failure

    assert (failure.slug, failure.facts.get("file"), failure.facts.get("line")) == (slug, "net.py", line)
    assert remedy in str(failure.facts.get("remedy") or by_slug()[slug].remedy())


def test_a_script_error_while_the_source_is_imported_has_its_line(run: Run) -> None:
    text = "@torch.jit.script\nclass Net:\n    def assign(self):\n        self.x = torch.rand(2)\n"
    failure = run(submitted(text)).failure

    assert failure.slug == "source-raised"
    assert (failure.facts["file"], failure.facts["line"], failure.facts["source"]) == (
        "net.py",
        7,
        "self.x = torch.rand(2)",
    )


def test_shared_parameters_are_named(run: Run) -> None:
    assert run(submitted(TIED_BUFFER)).failure.facts["names"] == ["part.scale", "part.again"]


def test_the_module_with_the_hook_is_named(run: Run) -> None:
    assert run(submitted(HOOKED)).failure.facts["module"] == "layer"


def test_the_python_function_is_named(run: Run) -> None:
    assert run(submitted(CALLS_PYTHON)).failure.facts["function"] == "helper"


def test_the_message_about_what_cannot_be_saved_has_no_path_of_this_machine(run: Run) -> None:
    message = str(run(submitted(CALLS_PYTHON)).failure.facts["message"])

    assert 'File "net.py", line 9' in message
    assert "site-packages" not in message


def test_what_torch_does_not_return_where_strict_is_off_is_returned_where_it_is_on(run: Run) -> None:
    """As the remedy says."""
    returned = submitted(forward("return {'a': x * 2, 'b': {'c': x}}"))
    failure = run(returned | {"options": {"strict": False}}).failure

    assert "`strict`" in str(failure.facts.get("remedy") or by_slug()[failure.slug].remedy())
    assert run(returned).traced.contract.methods["forward"].returns.model_dump(mode="json") == {
        "mapping": {"a": {"tensor": "output.a"}, "b": {"mapping": {"c": {"tensor": "output.b.c"}}}}
    }


def test_a_dict_of_dicts_is_returned_by_a_script(run: Run) -> None:
    """As the remedy says."""
    assert run(submitted(forward("return {'a': x * 2, 'b': {'c': x}}"), mode="script")).traced.form == "scripted"


def test_a_check_input_that_does_not_fit_is_named_with_its_method(run: Run) -> None:
    request = submitted(forward("return x"), check={"check_inputs": [[X], [X, X]]})
    failure = run(request).failure

    assert (failure.slug, failure.facts["case"], failure.facts["method"]) == (
        "argument-mismatch",
        "check_inputs[1]",
        "forward",
    )
    assert failure.detail.startswith("check_inputs[1]: forward(x) does not take these inputs")


@pytest.mark.parametrize("slug", ["argument-mismatch", "trace-method-not-found", "entrypoint-not-found"])
def test_what_goes_wrong_most_says_what_to_do(slug: str) -> None:
    assert by_slug()[slug].remedy()


def test_what_cannot_be_copied_is_named(run: Run) -> None:
    assert run(submitted(CANNOT_BE_MADE_TWICE)).failure.facts["attributes"] == ["lock"]


def test_the_dict_of_mixed_values_is_named(run: Run) -> None:
    request, *_ = REFUSED["a dict of a tensor and a list, taken"]

    assert run(request).failure.facts["input"] == "x"


def test_a_dict_of_mixed_values_is_named_where_it_nests(run: Run) -> None:
    pair = {"tuple": [X, {"a": X, "b": [X]}]}
    request = submitted(forward("return x[1]['a'] + x[1]['b'][0]"), example_inputs=[pair])

    assert run(request).failure.facts["input"] == "x.1"


def test_what_torch_says_after_all_of_a_large_tensor_is_heard(run: Run) -> None:
    large = {"datatype": "FP32", "shape": [100, 100], "random": {"seed": 0}}
    failure = run(submitted(forward("y = x.clone()", "return y.resize_(10000)"), example_inputs=[large])).failure

    assert failure.slug == "output-not-traced"
    assert len(failure.detail) < 1000


SHARED_BY_TWO = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4)
        self.second.weight = self.first.weight
    def forward(self, x):
        return self.second(self.first(x))
"""
QUANTISED = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layers = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
        self.layers = torch.ao.quantization.quantize_dynamic(layers, {nn.Linear}, dtype=torch.qint8)
    def forward(self, x):
        return self.layers(x)
"""
WORKING = {
    "two modules that share a parameter": SHARED_BY_TWO,
    "a method of a module as the entrypoint": "layer = nn.Linear(4, 3)\nNet = layer.forward\n",
    "complex numbers inside": forward("return torch.fft.ifft(torch.fft.fft(x)).real"),
    "a complex constant": forward("return (x * torch.tensor(1 + 2j)).abs()"),
    "a complex parameter": forward(
        "return (x * self.w).abs()", init="self.w = nn.Parameter(torch.ones(4, dtype=torch.complex64))"
    ),
    "quantised numbers inside": forward("return torch.quantize_per_tensor(x, 0.1, 0, torch.quint8).dequantize()"),
    "a quantised buffer": forward(
        "return x * self.w.dequantize()",
        init="self.register_buffer('w', torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8))",
    ),
    "a quantised layer": QUANTISED,
    "sparse numbers inside": forward("return x.to_sparse().to_dense() * 2"),
    "a forward hook": forward(
        "return self.layer(x)",
        init="self.layer = nn.Linear(4, 3); self.layer.register_forward_hook(lambda m, i, o: o * 2)",
    ),
    "a gradient inside": forward(
        "with torch.enable_grad():",
        "    y = x.detach().requires_grad_()",
        "    return torch.autograd.grad((y * y).sum(), y)[0]",
    ),
    "a layer under two names": forward("return self.b(self.a(x))", init="self.a = self.b = nn.Linear(4, 4)"),
}


# The way back from a sum spreads its gradient over the sizes that were traced.
RIGHT_AT_ONE_SIZE = {"a gradient inside"}
ON_THEIR_WAY_OUT = {"a quantised layer": "quantize_dynamic"}


@pytest.mark.parametrize("case", WORKING)
def test_what_torch_can_trace_is_traced_and_agrees(run: Run, case: str) -> None:
    if case in ON_THEIR_WAY_OUT and not hasattr(torch.ao.quantization, ON_THEIR_WAY_OUT[case]):
        pytest.skip("this torch has it no more")
    told = run(submitted(WORKING[case]))

    assert told.verdict == ("restricted" if case in RIGHT_AT_ONE_SIZE else "verified")
    assert all(one.agrees for one in told.traced.check.comparisons)
    assert told.traced.check.torch.passed


def test_a_refusal_ends_the_trace_request_with_its_name(work: Work) -> None:
    ended = work(submitted(CALLS_PYTHON))

    assert ended.state is State.FAILED
    assert ended.failure is not None
    assert ended.failure.slug == "python-function-called"


@pytest.mark.parametrize("case", ["a complex parameter", "a quantised buffer"])
def test_what_has_no_datatype_inside_is_verified_and_served(work: Work, case: str) -> None:
    ended = work(submitted(WORKING[case]))

    assert (ended.state, ended.verdict) == (State.SUCCEEDED, "verified")
