"""What users get wrong most, in the client and at the shell: each is named, with what to do about it."""

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch

import tracehouse
from tests.acceptance.conftest import LINEAR, Service
from tests.acceptance.test_client import client as client  # noqa: PLC0414 - a fixture
from tests.acceptance.test_command import GATE, run
from tracehouse.client import errors

X = torch.ones(1, 2)
LACKS = "import not_installed_anywhere\n" + LINEAR
NO_TENSOR = "def forward(x):\n    return x, object()\n"
ON_CUDA = 'def forward(x):\n    return x.to("cuda") * 2\n'


class Holds(torch.nn.Module):
    def __init__(self, held: Any) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with sources, in which the user works."""
    sources = {
        "net.py": LINEAR, "gate.py": GATE, "lacks.py": LACKS, "no_tensor.py": NO_TENSOR, "on_cuda.py": ON_CUDA,
        "no-module.py": LINEAR, "not_python.py": "def forward(x)\n    return x\n",
    }  # fmt: skip
    for name, text in sources.items():
        (tmp_path / name).write_text(text)
    torch.save({"other": torch.ones(2)}, tmp_path / "weights.pt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module", autouse=True)
def _served(service: Service) -> None:
    """A model to ask, and none that answers otherwise."""
    net = torch.nn.Linear(2, 3).eval()
    tracehouse.Client(service.address).trace(net, X, name="served-to-users").result()


def trace(client: tracehouse.Client, model: Any = None, inputs: Any = X, **options: Any) -> Any:
    """What comes of a trace; of a model that there is nothing wrong with, if it is not given."""
    return client.trace(model or torch.nn.Linear(2, 3).eval(), inputs, **{"name": "user-errors"} | options).result()


def newer(_: tracehouse.Client) -> Any:
    """A service that writes contracts of which this release knows nothing."""
    artifact = {"contract": {"methods": {}, "made_of": "news"}, "versions": {"tracehouse": "9.1"}}
    version = {"version": 1, "artifacts": {"cpu": "sha256:0"}, "buckets": []}
    model = {"name": "net", "default_version": 1, "aliases": [], "versions": [version]}
    replies = httpx.MockTransport(
        lambda asked: httpx.Response(200, json=artifact if "/art" in asked.url.path else model)
    )
    return tracehouse.Client("http://service", transport=replies).infer("net", X)


def needs_key(key: str | None) -> Callable[[tracehouse.Client], Any]:
    def ask(_: tracehouse.Client) -> Any:
        problem = {"title": "No", "code": "no", "detail": "it is so"}
        replies = httpx.MockTransport(lambda _: httpx.Response(401, json=problem))
        return tracehouse.Client("http://service", key, transport=replies).models.list()

    return ask


Act = Callable[[tracehouse.Client], Any]
SERVED = "served-to-users"
# What is done, which error comes, and what is said to do.
OF_CLIENT: dict[str, tuple[Act, type[Exception], str]] = {
    "an attribute that cannot be pickled": (
        lambda c: trace(c, Holds(i for i in "ab")), errors.NotSendable, "Set it to None while the model is traced",
    ),
    "a class in place of a model": (lambda c: trace(c, Holds), errors.NotSendable, r"hand in an object of it"),
    "a model on the meta device": (
        lambda c: trace(c, torch.nn.Linear(2, 3, device="meta")), errors.NotSendable, r"to_empty",
    ),
    "an input on the meta device": (
        lambda c: trace(c, inputs=X.to("meta")), errors.NotSendable, r"make it on the CPU, such as torch.randn\(1, 2\)",
    ),
    "a sparse input": (lambda c: trace(c, inputs=X.to_sparse()), errors.NotSendable, r"x.to_dense\(\)"),
    "a complex input": (lambda c: trace(c, inputs=X + 0j), errors.NotSendable, r"torch.view_as_real"),
    "an input that is no tensor": (
        lambda c: trace(c, inputs=(io.BytesIO(),)), errors.NotSendable, r"an input is a tensor",
    ),
    "no inputs": (lambda c: trace(c, inputs=()), errors.InvalidRequest, "give example_inputs"),
    "a file that is not there": (lambda c: trace(c, "nope.py:Net"), errors.NotSendable, "write its path from /"),
    "an entrypoint that is not there": (lambda c: trace(c, "net.py:Nett"), errors.TraceFailed, "there is Net\n.*"),
    "a package that is missing": (lambda c: trace(c, "lacks.py:Net"), errors.TraceFailed, "What to do: install it"),
    "a source that is no Python": (
        lambda c: trace(c, "not_python.py:forward"), errors.TraceFailed, "not_python.py:1: def .*Correct the line",
    ),
    "an output that is no tensor": (
        lambda c: trace(c, "no_tensor.py:forward"), errors.TraceFailed, "What to do: return tensors",
    ),
    "an input of another shape": (
        lambda c: trace(c, inputs=torch.ones(1, 5)), errors.TraceFailed, "What to do: give each example input the sh",
    ),
    "a device that is not there": (
        lambda c: trace(c, "on_cuda.py:forward"), errors.TraceFailed, "on_cuda.py:2: .*as `x.device`",
    ),
    "weights of another model": (
        lambda c: trace(c, "net.py:Net", weights="weights.pt"), errors.TraceFailed, "send this model's own weights",
    ),
    "a name that is no name": (lambda c: trace(c, name="a/b"), errors.NotSendable, "name is .a/b.: a name is 1 to 64"),
    "an environment that is not there": (
        lambda c: trace(c, environment="vision"), errors.InvalidRequest, "leave `environment` out, or ask whoever runs",
    ),
    "a model that was rejected": (
        lambda c: c.trace("gate.py:Gate", X, name="gate").infer(X), errors.NotServed, "What to do: write torch.where",
    ),
    "a size that the contract does not take": (
        lambda c: c.infer(SERVED, torch.ones(1, 7)), errors.OutsideContract, "What to do: Send that size",
    ),
    "a model that is not there": (lambda c: c.infer("nope", X), errors.NotFound, r"models: .*What to do: "),
    "a version that is not there": (lambda c: c.infer(f"{SERVED}:9", X), errors.NotFound, "ask for one that it has: 1"),
    "an alias that is not there": (lambda c: c.infer(f"{SERVED}@prod", X), errors.NotFound, r"client.models.set_alias"),
    "a method that was not traced": (
        lambda c: c.infer(SERVED, X, method="encode"), errors.NotFound, "there is forward.*trace the model again",
    ),
    "a service that is down": (
        lambda _: tracehouse.Client("127.0.0.1:9").models.list(), errors.ServiceUnreachable, "tracehouse serve",
    ),
    "a service that is newer": (newer, errors.UnexpectedReply, "install the same release"),
    "no key": (needs_key(None), errors.KeyRefused, r"give a key as Client\(key.*tracehouse keys create"),
    "a wrong key": (needs_key("th_x"), errors.KeyRefused, "give another one.*tracehouse keys create"),
    "a text that is no key": (
        lambda _: tracehouse.Client(key="two words"), errors.NotSendable, "Copy it again, without quotes",
    ),
}  # fmt: skip
INPUT = ("--input", "1x2")
# The arguments, and what is said to do.
OF_COMMAND: dict[str, tuple[tuple[str, ...], str]] = {
    "a file that is not there": (("trace", "nope.py:Net", *INPUT), "write its path from /"),
    "no entrypoint": (("trace", "net.py", *INPUT), r"net\.py:NAME"),
    "an entrypoint that is not there": (("trace", "net.py:Nett", *INPUT), "there is Net\n.*remedy: "),
    "a file that is no module": (("trace", "no-module.py:Net", *INPUT), "rename it"),
    "no inputs": (("trace", "net.py:Net"), "--input 1x3x224x224"),
    "an input that is no input": (("trace", "net.py:Net", "--input", "1;2"), r"a shape such as 1x3x224x224"),
    "a file of inputs that is not there": (("trace", "net.py:Net", "--input", "in.npz#x"), "write its path from /"),
    "an input of another shape": (("trace", "net.py:Net", "--input", "1x5"), r"net\.py:\d+: .*remedy: give each"),
    "a package that is missing": (("trace", "lacks.py:Net", *INPUT), "remedy: install it"),
    "a source that is no Python": (("trace", "not_python.py:forward", *INPUT), "remedy: Correct the line"),
    "an output that is no tensor": (("trace", "no_tensor.py:forward", *INPUT), "remedy: return tensors"),
    "weights of another model": (
        ("trace", "net.py:Net", *INPUT, "--weights", "weights.pt"), "remedy: send this model's own weights",
    ),
    "a name that is no name": (("trace", "net.py:Net", *INPUT, "--name", "a/b"), "/model: a name is 1 to 64"),
    "a model that was rejected": (("trace", "gate.py:Gate", *INPUT), r"--accept-unsound"),
    "a model that is not there": (("infer", "nope", "{}"), "models: .*remedy: `GET /models` lists the names"),
    "a version that is not there": (("promote", f"{SERVED}:9"), "it has 1"),
    "an alias that is not there": (("download", f"{SERVED}@prod", "net.pt"), "tracehouse alias sets one"),
    "a size that the contract does not take": (
        ("infer", SERVED, '{"args": [[[1, 2, 3]]]}'), "remedy: Send that size",
    ),
    "inputs that are no JSON": (("infer", SERVED, "{args}"), "remedy: .*JSON"),
    "a service that is down": (("traces", "--url", "127.0.0.1:9"), "tracehouse serve; or say where it is"),
    "a text that is no key": (("traces", "--key", "two words"), "this is not an API key"),
    "an archive that no Tracehouse made": (("verify", "weights.pt"), "tracehouse download"),
}  # fmt: skip


def test_they_are_at_least_twenty_in_the_client_and_at_the_shell() -> None:
    assert (len(OF_CLIENT) >= 20, len(OF_COMMAND) >= 20) == (True, True)


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("case", OF_CLIENT)
def test_the_client_says_what_is_wrong_and_what_to_do(client: tracehouse.Client, case: str) -> None:
    act, kind, to_do = OF_CLIENT[case]
    with pytest.raises(kind) as raised:
        act(client)

    assert type(raised.value) is kind
    assert re.search(to_do, str(raised.value), re.DOTALL), str(raised.value)


@pytest.mark.parametrize("case", OF_COMMAND)
def test_the_command_says_what_is_wrong_and_what_to_do(service: Service, here: Path, case: str) -> None:
    arguments, to_do = OF_COMMAND[case]
    ended = run(here, service, *arguments)

    assert ended.returncode in (1, 2, 3)
    assert re.search(to_do, ended.stderr, re.DOTALL), ended.stderr
    assert "Traceback" not in ended.stderr
