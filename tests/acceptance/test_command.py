"""The `tracehouse` command against a real service: what a person at a shell sees."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
import torch

from tests.acceptance.conftest import ANSWER_S, LINEAR, TRACEHOUSE, Service, get
from tests.pictures import noise

EXAMPLES = Path(__file__).parents[2] / "examples"
GATE = (EXAMPLES / "gate.py").read_text()
POOL = """import torch


class Net(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.adaptive_avg_pool2d(x.relu(), 1).flatten(1)
"""
TWO_METHODS = (EXAMPLES / "torch" / "trace_module" / "net.py").read_text()
ONE_TWO = '{"args": [[[1, 2]]]}'
# So that a busy machine does not cut the check: the verdict's sentence would say so.
AMPLE = ("--budget", "120")


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(LINEAR)
    (tmp_path / "gate.py").write_text(GATE)
    return tmp_path


def run(here: Path, service: Service | None, *arguments: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    address = service.address if service else "http://127.0.0.1:9"
    return subprocess.run(
        [TRACEHOUSE, *arguments],
        cwd=here,
        env=os.environ | {"TRACEHOUSE_URL": address},
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_model_is_traced_listed_and_asked(service: Service, here: Path) -> None:
    traced = run(here, service, "trace", "net.py:Net", "--input", "1x2", "--name", "shell", *AMPLE)
    assert (traced.returncode, "verdict: verified   model: shell:1" in traced.stdout) == (0, True), traced.stderr
    assert traced.stdout.startswith("weights-not-sent: no weights were sent")
    assert traced.stdout.count("weights-not-sent") == 1
    assert "shell: 1 verified" in run(here, service, "models").stdout
    (here / "body.json").write_text('{"args": [[[1, 2]]]}')
    replies = {
        run(here, service, "infer", "shell", body, stdin='{"args": [[[1, 2]]]}').stdout
        for body in ('{"args": [[[1, 2]]]}', "@body.json", "-")
    }
    assert len(replies) == 1
    assert '"shape"' in replies.pop()
    assert "the body: " in run(here, service, "infer", "shell", '{"arg": [[[1, 2]]]}').stderr


def test_a_rejected_model_is_no_success_unless_it_is_accepted(service: Service, here: Path) -> None:
    rejected = run(here, service, "trace", "gate.py:Gate", "--input", "1x4")
    assert (rejected.returncode, "--accept-unsound" in rejected.stderr) == (3, True)
    accepted = run(here, service, "trace", "gate.py:Gate", "--input", "1x4", "--accept-unsound")
    assert (accepted.returncode, "model: gate:1" in accepted.stdout) == (0, True)


def test_a_version_that_accepts_less_is_named_and_promoted_by_hand(service: Service, here: Path) -> None:
    run(here, service, "trace", "net.py:Net", "--input", "1x2", "--name", "promoted")
    narrow = ["--name", "promoted", "--sizes", "batch=1..2"]
    traced = run(here, service, "trace", "net.py:Net", "--input", "1x2", *narrow)
    assert "promoted: no: version 1 stays the default version: sizes 3 to " in traced.stdout, traced.stdout
    assert "default → 1" in run(here, service, "models").stdout.partition("promoted: ")[2]
    remedy = traced.stdout.partition("remedy: tracehouse ")[2].splitlines()[0]
    assert run(here, service, *remedy.split()).stdout == "promoted: version 2 answers now; before, version 1 did.\n"


def test_a_branch_is_kept_where_the_model_is_scripted(service: Service, here: Path) -> None:
    gate = ("trace", "gate.py:Gate", "--input", "1x4", "--mode", "script", "--name", "scripted")
    scripted = run(here, service, *gate, *AMPLE)
    assert (scripted.returncode, "verdict: verified   model: scripted:1" in scripted.stdout) == (0, True), scripted


def test_mode_auto_says_what_it_did(service: Service, here: Path) -> None:
    made = run(here, service, "trace", "gate.py:Gate", "--input", "1x4", "--mode", "auto", "--name", "auto")
    assert "made by: script (tried: trace → rejected)\nverdict: verified" in made.stdout, made.stdout
    at_once = run(here, service, "trace", "net.py:Net", "--input", "1x2", "--mode", "auto", "--name", "at_once")
    assert "made by: trace\nverdict: verified" in at_once.stdout, at_once.stdout


def test_the_command_prints_what_the_check_left_out_and_an_open_contract(service: Service, here: Path) -> None:
    made = run(
        here, service, "trace", "net.py:Net", "--input", "1x2", "--name", "brief", "--budget", "0.0001", "--open"
    )
    not_tried = (
        "not checked to the end, of forward: which sizes may vary\n  other sizes of x were not tried\n  why: a limit"
    )
    assert not_tried in made.stdout, made.stdout
    assert "open: sizes that were never tried are answered, with a warning" in made.stdout
    whole = run(here, service, "trace", "net.py:Net", "--input", "1x2", "--name", "whole")
    assert "not checked to the end" not in whole.stdout
    assert "open" not in whole.stdout


def test_inputs_that_are_no_tensors_reach_the_model(service: Service, here: Path) -> None:
    (here / "odd.py").write_text(
        "def told(x, *, scale, n, flag, mask):\n    print(scale, n, flag, mask)\n    return x\n"
    )
    plain = ["scale=0.25", "n=int:3", "flag=true", "mask=null"]
    ran = run(here, service, "trace", "odd.py:told", "--mode", "eager", *(f"--input={each}" for each in ["2", *plain]))
    assert "0.25 3 True None" in ran.stderr, ran.stderr


def test_a_further_method_is_traced_on_inputs_of_its_own(service: Service, here: Path) -> None:
    (here / "two.py").write_text(TWO_METHODS)
    method = ["--method", "weighted_kernel_sum=weight=1x1x3x3"]
    traced = run(here, service, "trace", "two.py:Net", "--input", "1x1x3x3", *method)
    assert (traced.returncode, "code of weighted_kernel_sum" in traced.stdout) == (0, True), traced.stderr


def test_pictures_are_samples(service: Service, here: Path) -> None:
    (here / "pool.py").write_text(POOL)
    (here / "cat.jpg").write_bytes(noise(form="JPEG"))
    (here / "dog.png").write_bytes(noise(33, 21))
    trace = ["trace", "pool.py:Net", "--input", "1x3x8x8", "--samples", "cat.jpg", "--samples", "dog.png", *AMPLE]
    traced = run(here, service, *trace, "--image-size", "own", "--image-mean", "0.5", "--image-std", "0.2,0.2,0.3")
    assert traced.returncode == 0, traced.stdout + traced.stderr
    assert "2 samples of real inputs" in get(traced.stdout.rpartition("report: ")[2].strip()).text
    (here / "dog.png").write_bytes(noise()[:500])
    cut_off = run(here, service, *trace)
    assert (cut_off.returncode, "'dog.png' cannot be read: it is no whole PNG or JPEG" in cut_off.stderr) == (1, True)


def test_an_eager_run_prints_what_the_model_prints_and_returns(service: Service, here: Path) -> None:
    (here / "loud.py").write_text("def halved(x):\n    print('halving')\n    return x / 2\n")
    ran = run(here, service, "trace", "loud.py:halved", "--input", "2", "--mode", "eager")
    assert (ran.returncode, "halving" in ran.stderr) == (0, True), ran.stderr
    [call] = json.loads(ran.stdout)["calls"]
    assert [(output["name"], output["shape"]) for output in call["outputs"]] == [("output", [2])]


def test_an_archive_is_served_in_place_of_source(service: Service, here: Path) -> None:
    traced = run(here, service, "trace", "net.py:Net", "--input", "1x2", "--name", "from_source")
    digest = traced.stdout.rpartition("artifact: ")[2].split()[0]
    (here / "net.pt").write_bytes(get(f"{service.address}/artifacts/{digest}/archive").content)
    uploaded = run(here, service, "trace", "net.pt", "--input", "1x2", "--name", "uploaded")
    assert (uploaded.returncode, "model: uploaded:1" in uploaded.stdout) == (0, True), uploaded.stderr
    replies = [
        json.loads(run(here, service, "infer", name, "-", stdin=ONE_TWO).stdout) for name in ("from_source", "uploaded")
    ]
    assert replies[0]["outputs"][0]["data"] == replies[1]["outputs"][0]["data"]


def test_every_option_reaches_the_manifest(service: Service, here: Path) -> None:
    served = ["--optimize-for-inference", "--precision", "float64", "--exportability"]
    traced = run(here, service, "trace", "net.py:Net", "--input", "1x2:FP64", "--name", "served", *served)
    learnt = run(
        here, service, "trace", "net.py:Net", "--input", "1x2", "--name", "learnt", "--training", "--gradients"
    )
    assert (traced.returncode, learnt.returncode) == (0, 0), traced.stderr + learnt.stderr
    first, second = (
        get(f"{service.address}/artifacts/{each.stdout.rpartition('artifact: ')[2].split()[0]}").json()
        for each in (traced, learnt)
    )
    assert (first["optimize_for_inference"], first["precision"]) == (True, "float64")
    assert f"exportability: {first['exportability']['note']}" in traced.stdout
    assert "what torch.jit.optimize_for_inference makes" in traced.stdout
    assert second["training"] is True
    assert any("gradient" in comparison["case"] for comparison in second["check"]["comparisons"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["net.py:Nett", "--input", "1x2"], ["entrypoint-not-found", "Net"]),
        (["net.py:Net", "--input", "1x5"], ["model-raised", "net.py:10: return self.linear(x).relu()"]),
        (["brackets.py:Net", "--input", "1x2"], ["bad axis [/foo] [bold]"]),
        (["returns_object.py:Net", "--input", "1x2"], ["remedy: "]),
        (["net.py:Net", "--input", "1x2", "--name", "a/b"], ["/model: a name is"]),
        (["net.py:Net", "--input", "1x2", "--mode", "scripted"], ["/mode: "]),
        (["net.py:Net", "--input", "1x2", "--training", "--freeze"], ["eval mode only"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_goes_wrong_is_told_with_its_line_and_remedy(
    service: Service, here: Path, arguments: list[str], said: list[str]
) -> None:
    head = "import torch\n\n\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        "
    (here / "brackets.py").write_text(head + "raise ValueError('bad axis [/foo] [bold]')\n")
    (here / "returns_object.py").write_text(head + "return x, object()\n")
    failed = run(here, service, "trace", *arguments)
    assert failed.returncode == 1
    assert all(words in failed.stderr for words in said), failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trace", "nope.py:Net", "--input", "1x2"], "there is no file nope.py"),
        (["trace", "net.py", "--input", "1x2"], "net.py:NAME"),
        (["trace", "net:Net", "--input", "1x2"], "neither a .py nor a .zip"),
        (["trace", "net.py:Net", "--input", "nope.npz#x"], "there is no file nope.npz"),
        (["trace", "net.py:Net", "--input", "1x2", "--init", "[1]"], "--init"),
        (["trace", "net.py:Net", "--method", "kernel_sum"], "kernel_sum=1x3"),
        (["trace", "net.py:Net"], "--input 1x3x224x224"),
        (["trace", "net.py:Net", "--input", "1x2", "--training", "--as-is"], "--as-is"),
        (["trace", "net.py:Net", "--input", "1x2", "--weights-key", "ema"], "--weights FILE"),
        (["trace", "nope.pt", "--input", "1x2"], "there is no file nope.pt"),
        (["infer", "net", "@nope.json"], "there is no file nope.json"),
        (["serve", "--state", "net.py"], "--state"),
        (["serve", "--state", "/proc/nope"], "--state"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_slip_is_named_before_anything_is_sent(here: Path, arguments: list[str], said: str) -> None:
    refused = run(here, None, *arguments)
    assert (refused.returncode, said in refused.stderr) == (2, True), refused.stderr
    assert "Traceback" not in refused.stderr


def test_no_service_is_told_with_what_to_do(here: Path) -> None:
    refused = run(here, None, "trace", "net.py:Net", "--input", "1x2")
    assert (refused.returncode, "tracehouse serve" in refused.stderr) == (1, True)


def test_a_port_that_is_taken_is_named(service: Service, here: Path) -> None:
    port = service.address.rpartition(":")[2]
    refused = run(here, None, "serve", "--port", port, "--state", "other")
    assert (refused.returncode, f"port {port}" in refused.stderr, "--port" in refused.stderr) == (2, True, True)


def test_source_in_another_encoding_is_traced(service: Service, here: Path) -> None:
    source = "# -*- coding: latin-1 -*-\n# größer\n" + LINEAR
    (here / "latin.py").write_bytes(source.encode("latin-1"))
    traced = run(here, service, "trace", "latin.py:Net", "--input", "1x2")
    assert traced.returncode == 0, traced.stderr


def test_a_request_that_no_worker_takes_says_so_and_can_be_interrupted(service: Service, here: Path) -> None:
    waiting = subprocess.Popen(
        [TRACEHOUSE, "trace", "net.py:Net", "--input", "1x2", "--device", "cuda", "--url", service.address],
        cwd=here,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert waiting.stderr is not None
    said = waiting.stderr.readline()
    assert ("no worker in pool gpu" in said, "GPU_SLOTS" in said) == (True, True), said
    waiting.send_signal(signal.SIGINT)
    said = waiting.stderr.read()
    assert (waiting.wait(ANSWER_S), "Cancelled" in said) == (130, True), said


def test_an_interrupt_cancels_the_request(service: Service, here: Path) -> None:
    (here / "slow.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(60)\n")
    tracing = subprocess.Popen(
        [TRACEHOUSE, "trace", "slow.py:Net", "--input", "1x2", "--name", "interrupted", "--url", service.address],
        cwd=here,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracing.stderr is not None
    assert tracing.stderr.readline().strip() == "loading"
    tracing.send_signal(signal.SIGINT)
    said = tracing.stderr.read()
    assert (tracing.wait(ANSWER_S), "Cancelled" in said) == (130, True), said
    [request] = get(f"{service.address}/trace?model=interrupted").json()["trace_requests"]
    assert request["state"] == "cancelled"


def test_two_versions_are_compared_aliased_downloaded_and_deleted(service: Service, here: Path) -> None:
    (here / "other.py").write_text(LINEAR.replace("return self", "return 2 * self"))
    assert (here / "other.py").read_text() != LINEAR
    for source in ("net.py:Net", "other.py:Net"):
        traced = run(here, service, "trace", source, "--input", "1x2", "--name", "twins", *AMPLE)
        assert traced.returncode == 0, traced.stderr

    compared = run(here, service, "diff", "twins:1", "twins:2")
    assert compared.stdout.startswith("twins:1 → twins:2\nverdict: verified\n"), compared.stderr
    assert "graph of forward: aten::mul: 0 → 1\n" in compared.stdout
    document = json.loads(run(here, service, "diff", "twins:1", "twins:2", "--json").stdout)
    [artifact] = document["artifacts"]
    assert {"method": "forward", "name": "aten::mul", "before": 0, "after": 1} in artifact["operators"]
    assert "nothing differs" in run(here, service, "diff", "twins:1", "twins:1").stdout

    for version in ("1", "2"):
        assert run(here, service, "alias", f"twins:{version}", "prod").stdout == f"twins@prod → {version}\n"
    assert run(here, service, "diff", "twins:1", "twins@prod").stdout.startswith("twins:1 → twins:2\n")
    listed = json.loads(run(here, service, "models", "--json").stdout)["models"]
    [twins] = [one for one in listed if one["name"] == "twins"]
    assert [(one["alias"], one["version"]) for one in twins["aliases"]] == [("prod", 2)]

    got = run(here, service, "download", "twins@prod", "got.pt", "--json")
    assert (json.loads(got.stdout)["version"], "mul" in torch.jit.load(here / "got.pt").code) == (2, True), got.stderr
    refused = run(here, service, "download", "twins", "got.pt", "--part", "tpu")
    assert (refused.returncode, "'cpu'" in refused.stderr) == (2, True), refused.stderr
    assert {one.name for one in here.iterdir()} == {"net.py", "gate.py", "other.py", "got.pt"}

    missing = run(here, service, "diff", "twins:1", "twins@gone")
    assert (missing.returncode, "no alias gone" in missing.stderr) == (2, True), missing.stderr
    pointed_at = run(here, service, "delete", "twins:2")
    assert (pointed_at.returncode, "prod" in pointed_at.stderr) == (1, True), pointed_at.stderr
    assert run(here, service, "delete", "twins@prod").stdout == "deleted: twins@prod\n"
    unasked = run(here, service, "delete", "twins")
    assert (unasked.returncode, "twins:" in run(here, service, "models").stdout) == (1, True), unasked.stderr
    assert run(here, service, "delete", "twins", "--yes").stdout == "deleted: twins\n"
    assert "twins:" not in run(here, service, "models").stdout


def test_a_trace_is_found_again_by_its_id_and_by_its_version(service: Service, here: Path) -> None:
    (here / "loud.py").write_text("print('loading')\n" + LINEAR)
    traced = run(here, service, "trace", "loud.py:Net", "--input", "1x2", "--name", "again", "--json", *AMPLE)
    request = json.loads(traced.stdout)["trace_request"]
    assert (traced.returncode, request["verdict"]) == (0, "verified"), traced.stderr
    rows = [line.split() for line in run(here, service, "traces", "--model", "again").stdout.splitlines()]
    assert rows[0] == ["id", "state", "verdict", "model", "age"]
    assert rows[1][:4] == [request["id"], "succeeded", "verified", "again:1"]

    for name in (request["id"], "again", "again:1"):
        assert "loading\n" in run(here, service, "logs", name).stdout
        assert "verdict: verified   model: again:1" in run(here, service, "report", name).stdout
        printed = run(here, service, "graph", name)
        assert printed.stdout.startswith("graph(%self"), printed.stderr
    assert "loading\n" in run(here, service, "logs", "again", "--follow").stdout
    events = [json.loads(line) for line in run(here, service, "logs", "again", "-f", "--json").stdout.splitlines()]
    assert (events[-1]["event"], events[-1]["verdict"]) == ("end", "verified")
    assert json.loads(run(here, service, "report", "again", "--json").stdout)["trace_request"] == request
    assert "def forward(self" in run(here, service, "graph", "again", "--kind", "code").stdout
    nodes = json.loads(run(here, service, "graph", "again", "--kind", "inlined_graph", "--json").stdout)["nodes"]
    assert "aten::linear" in {node["operator"] for node in nodes}
    written = run(here, service, "report", "again", "--output", "report.html")
    assert (here / "report.html").read_text().startswith("<!doctype html>"), written.stderr

    assert run(here, service, "delete", "again", "--yes").returncode == 0
    assert run(here, service, "delete", request["id"]).stdout == f"deleted: {request['id']}\n"
    gone = run(here, service, "report", request["id"])
    assert (gone.returncode, "trace-request-not-found" in gone.stderr) == (1, True), gone.stderr


def test_a_trace_that_failed_says_why_wherever_it_is_asked_for(service: Service, here: Path) -> None:
    failed = run(here, service, "trace", "net.py:Net", "--input", "1x5", "--name", "fails", "--json")
    request = json.loads(failed.stdout)["trace_request"]
    assert (failed.returncode, request["problem"]["code"]) == (1, "model-raised")
    listed = json.loads(run(here, service, "traces", "--state", "failed", "--json").stdout)["trace_requests"]
    assert request["id"] in [one["id"] for one in listed]
    for command in ("report", "graph"):
        refused = run(here, service, command, request["id"])
        assert (refused.returncode, "model-raised" in refused.stderr) == (1, True), refused.stderr


def test_a_trace_that_waits_is_followed_and_has_no_report_yet(service: Service, here: Path) -> None:
    tracing = subprocess.Popen(
        [TRACEHOUSE, "trace", "net.py:Net", "--input", "1x2", "--device", "cuda", "--name", "waits"],
        cwd=here,
        env=os.environ | {"TRACEHOUSE_URL": service.address},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert tracing.stderr is not None
    assert "no worker" in tracing.stderr.readline()
    listed = run(here, service, "traces", "--state", "queued", "--model", "waits", "--json")
    [request] = json.loads(listed.stdout)["trace_requests"]
    refused = run(here, service, "report", request["id"])
    tracing.send_signal(signal.SIGINT)
    tracing.communicate(timeout=ANSWER_S)
    assert (refused.returncode, "tracehouse logs --follow" in refused.stderr) == (2, True), refused.stderr
    ended = run(here, service, "report", request["id"])
    assert (ended.returncode, "cancelled" in ended.stderr) == (1, True), ended.stderr
