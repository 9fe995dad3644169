"""Pictures as samples: decoded in the jailed children alone, and treated as all other samples are."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.pictures import noise, plain
from tests.workers.conftest import ArtifactOf, Work
from tracehouse.findings.verdict import Verdict

SOURCE = """import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Conv2d(3, 2, 3)

    def forward(self, x):
        return self.layer(x).relu().mean((2, 3))


class Inverts(Net):
    def forward(self, x):
        if x.min() > 0.99:
            x = 1 - x
        return super().forward(x)


class Bytes(Net):
    def forward(self, x):
        return super().forward(x.permute(0, 3, 1, 2) / 255)
"""
X = {"datatype": "FP32", "shape": [1, 3, 8, 10], "random": {"low": 0, "high": 1}}
BYTES = {"datatype": "UINT8", "shape": [1, 8, 10, 3], "random": {"low": 0, "high": 256}}
WHITE = plain(colour=(255, 255, 255), width=10, height=8)


def of_pictures(*samples: dict[str, Any], entrypoint: str = "Net", x: Any = X, **check: Any) -> dict[str, Any]:
    source = {"files": {"net.py": SOURCE}, "entrypoint": f"net:{entrypoint}"}
    return {"model": "net", "source": source, "example_inputs": [x], "check": {"samples": samples, **check}}


def test_each_picture_is_answered_by_both_processes(artifact: ArtifactOf) -> None:
    reading = {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}
    samples = [{"file": "a.png", "image": reading}, {"file": "B.JPG", "image": {**reading, "size": "own"}}]
    made = artifact(of_pictures(*samples), {"a.png": noise(), "B.JPG": noise(33, 21, "JPEG")})

    found = {one.case: one.agrees for one in made.check.comparisons if one.case.startswith("samples")}
    assert found == {"samples[0]": True, "samples[1]": True}
    assert (made.check.samples, made.check.verdict) == (2, Verdict.VERIFIED)


def test_bytes_with_the_channels_last_are_taken_too(artifact: ArtifactOf) -> None:
    check = artifact(of_pictures({"file": "a.png"}, entrypoint="Bytes", x=BYTES), {"a.png": noise()}).check

    assert (check.samples, check.verdict) == (1, Verdict.VERIFIED)


def test_a_picture_on_which_the_artifact_is_wrong_rejects_it(artifact: ArtifactOf) -> None:
    check = artifact(of_pictures({"file": "white.png"}, entrypoint="Inverts"), {"white.png": WHITE}).check

    assert check.verdict is Verdict.REJECTED
    assert [one.agrees for one in check.comparisons if one.case == "samples[0]"] == [False]


def test_a_picture_of_its_own_size_that_the_contract_refuses_restricts_the_artifact(artifact: ArtifactOf) -> None:
    own = {"file": "a.png", "image": {"size": "own"}}
    check = artifact(of_pictures(own, probes="off"), {"a.png": noise(33, 21)}).check

    assert check.verdict is Verdict.RESTRICTED
    assert [one.evidence["case"] for one in check.findings if one.kind == "sizes-not-covered"] == ["samples[0]"]


@pytest.mark.parametrize(
    ("make", "image", "slug", "detail"),
    [
        (
            lambda: plain("RGBA", (0, 0, 0, 0)),
            {},
            "inputs-unreadable",
            "'a.png' cannot be read: it is transparent (RGBA)",
        ),
        (lambda: noise()[:500], {}, "inputs-unreadable", "no whole PNG or JPEG file"),
        (lambda: plain("1", 0, 40000, 40000), {}, "inputs-unreadable", "40000 × 40000 pixels"),
        (noise, {"input": "y"}, "argument-mismatch", "the method forward has no input 'y': it has x"),
    ],
    ids=["four channels", "truncated", "a bomb", "no such input"],
)
def test_a_picture_that_can_be_no_input_fails_the_request(
    work: Work, make: Callable[[], bytes], image: dict[str, Any], slug: str, detail: str
) -> None:
    failure = work(of_pictures({"file": "a.png", "image": image}), {"a.png": make()}).failure

    assert failure is not None
    assert failure.slug == slug
    assert detail in failure.detail
    assert failure.facts["remedy"]
