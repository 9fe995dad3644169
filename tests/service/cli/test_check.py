"""`tracehouse check` traces and checks a model with no service; what a person sees in each form of the result."""

import errno
import json
import re
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

import pytest
import torch
import typer.main
from click.testing import Result
from typer.testing import CliRunner

from service.cli import app
from service.sandbox import choose_tier
from service.sandbox.zygote import Zygote
from tests.submissions import text

# So that a busy machine does not cut the check: the verdict's sentence would say so.
AMPLE = ("--budget", "120")
Check = Callable[..., Result]


@pytest.fixture(autouse=True)
def _forks_from_the_tests_own(torch_zygote: Zygote, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zygote takes seconds to start."""
    monkeypatch.setattr("service.sandbox.zygote.Zygote", lambda *_, **__: nullcontext(torch_zygote))


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a repository, in which the command runs; temporary files are elsewhere."""
    here = tmp_path / "repository"
    (here / "models").mkdir(parents=True)
    for name in ("linear", "branches_on_data", "keeps_its_length", "raises_in_forward", "scripted_already", "warns"):
        (here / "models" / f"{name}.py").write_text(text(name))
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(here)
    monkeypatch.delenv("SANDBOX", raising=False)
    return here


@pytest.fixture
def check(here: Path) -> Check:
    def check(*arguments: str) -> Result:
        ended = CliRunner().invoke(app, ["check", *arguments, *AMPLE])
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.output
        return ended

    return check


LINEAR = ("models/linear.py:Net", "--input", "1x4")
TWO_DEVICES = ("--device", "cpu", "--device", "cuda")
BRANCHES = ("models/branches_on_data.py:Net", "--input", "1x4")
KEEPS = ("models/keeps_its_length.py:Net", "--input", "ids=2x8:INT64@0..9", "--input", "mask=2x8:INT64@1..2")
RAISES = ("models/raises_in_forward.py:Net", "--input", "1x4")


def test_a_verified_model_is_a_success_with_its_contract(check: Check) -> None:
    ended = check(*LINEAR)

    assert ended.exit_code == 0, ended.output
    assert ended.stdout.startswith("weights-not-sent: ")
    assert "│ forward │ input  │ x      │ FP32     │ batch x 4 │" in ended.stdout
    assert "sizes of forward: batch 1 to 256 (proven)" in ended.stdout
    assert ended.stdout.endswith("\nverdict: verified\n")


def test_nothing_is_left_but_what_was_asked_for(check: Check, here: Path) -> None:
    before = {*here.parent.rglob("*")}
    check(*LINEAR, "--html", "report.html", "--output", "net.pt")

    assert {*here.parent.rglob("*")} - before == {here / "report.html", here / "net.pt"}


def test_a_file_that_cannot_be_written_to_its_end_stays_as_it_was(
    check: Check, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fills_the_disk(_: object, file: BinaryIO) -> None:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    (here / "net.pt").write_bytes(b"before")
    monkeypatch.setattr("shutil.copyfileobj", fills_the_disk)
    ended = check(*LINEAR, "--output", "net.pt")

    assert (ended.exit_code, "net.pt cannot be written (No space left" in ended.stderr) == (2, True), ended.output
    assert (here / "net.pt").read_bytes() == b"before"


def test_a_rejected_model_is_no_success_and_the_line_is_named_with_what_to_write(check: Check) -> None:
    ended = check(*BRANCHES)

    assert ended.exit_code == 3
    assert "branches_on_data.py:6: baked-value: this line of forward reads a value out of a tensor" in ended.stdout
    assert "  remedy: write torch.where(x.sum() > 0, " in ended.stdout
    assert "  options of tracehouse check: --mode for mode\n" in ended.stdout
    assert ended.stdout.endswith("\nverdict: rejected\n")


def test_inputs_that_show_what_is_wrong_are_printed_with_their_values(check: Check, here: Path) -> None:
    ended = check(*BRANCHES, "--junit", "check.xml")

    heading, shown = re.findall(r"^(inputs on which .*):\n  0\. (.*)$", ended.stdout, re.MULTILINE)[0]
    assert heading == "inputs on which the model and the trace differ, the smallest that were found"
    value, eager, artifact = map(
        float,
        re.findall(r"forward\(x = \[\[(\S+)\]\]\): output: eager gives (\S+) at .* the artifact (\S+)$", shown)[0],
    )
    assert eager == pytest.approx(value * 2 if value > 0 else value - 1)
    assert artifact != eager
    failure = ElementTree.parse(here / "check.xml").findtext("testsuite/testcase/failure") or ""
    assert f"Counterexamples\n    0. {shown}" in failure


def test_a_verified_model_has_no_inputs_that_show_a_difference(check: Check) -> None:
    assert "differ" not in check(*LINEAR).stdout


def test_a_restricted_model_has_an_exit_code_of_its_own(check: Check) -> None:
    ended = check(*KEEPS)

    assert (ended.exit_code, ended.stdout.rpartition("\nverdict: ")[2][:10]) == (4, "restricted")
    assert "kept by the trace of forward: the size of ids in dim 1" in ended.stdout


def test_a_scripted_model_is_self_consistent(check: Check) -> None:
    ended = check("models/scripted_already.py:net", "--input", "1x4")

    assert (ended.exit_code, "\nverdict: self-consistent" in ended.stdout) == (0, True), ended.output


def test_a_warning_of_the_model_is_printed_once_with_its_line(check: Check) -> None:
    ended = check("models/warns.py:Net", "--input", "3")

    assert ended.exit_code == 0, ended.output
    assert [line for line in ended.stderr.splitlines() if "Warning" in line] == ["warns.py:8: UserWarning: mine"]


def test_a_model_that_raises_is_told_with_its_line(check: Check) -> None:
    ended = check(*RAISES, "--html", "report.html")

    assert ended.exit_code == 1
    assert "(model-raised)" in ended.stderr
    assert "raises_in_forward.py:9: return x @ x" in ended.stderr
    assert "report.html is not written: nothing was traced" in ended.stderr


def test_a_request_that_says_something_impossible_is_told_as_the_service_tells_it(check: Check) -> None:
    ended = check(*LINEAR, "--mode", "scripted")

    assert (ended.exit_code, "  /mode: " in ended.stderr) == (1, True)


def test_mode_auto_says_what_it_did(check: Check) -> None:
    ended = check(*BRANCHES, "--mode", "auto")

    assert (ended.exit_code, "made by: script (tried: trace → rejected)\nverdict: verified" in ended.stdout) == (
        0,
        True,
    )


def test_printouts_are_printed_if_they_are_asked_for(check: Check) -> None:
    assert "code of forward" not in check(*LINEAR).stdout
    assert "def forward(self," in check(*LINEAR, "--printouts").stdout


def test_json_has_what_the_service_has_and_nothing_else_is_printed(check: Check) -> None:
    ended = check(*BRANCHES, "--json")
    document = json.loads(ended.stdout)

    assert (ended.exit_code, document["verdict"], document["problem"]) == (3, "rejected", None)
    [artifact] = document["artifacts"]
    assert artifact["contract"]["methods"]["forward"]["inputs"][0]["name"] == "x"
    assert artifact["verdict_sentence"] == "rejected"
    assert {finding["kind"] for finding in document["findings"]} >= {"baked-value", "output-differs"}


def test_json_has_the_problem_of_a_model_that_cannot_be_traced(check: Check) -> None:
    document = json.loads(check(*RAISES, "--json").stdout)

    assert (document["verdict"], document["artifacts"]) == (None, [])
    assert (document["problem"]["code"], document["problem"]["line"]) == ("model-raised", 9)


def test_sarif_names_the_line_in_the_repository(check: Check, here: Path) -> None:
    check(*BRANCHES, "--sarif", "found.sarif")

    [run] = json.loads((here / "found.sarif").read_text())["runs"]
    [result] = [one for one in run["results"] if one["ruleId"] == "baked-value"]
    place = result["locations"][0]["physicalLocation"]
    assert (result["level"], place["artifactLocation"]["uri"]) == ("error", "models/branches_on_data.py")
    line = (here / place["artifactLocation"]["uri"]).read_text().splitlines()[place["region"]["startLine"] - 1]
    assert line.strip() == place["region"]["snippet"]["text"] == "if x.sum() > 0:"


def test_a_form_feed_above_a_line_does_not_move_it(check: Check, here: Path) -> None:
    file = here / "models" / "branches_on_data.py"
    file.write_text(f"\x0c\n# a section\u2028\n{file.read_text()}", "utf-8")
    ended = check(*BRANCHES, "--sarif", "found.sarif")

    [run] = json.loads((here / "found.sarif").read_text())["runs"]
    [result] = [one for one in run["results"] if one["ruleId"] == "baked-value"]
    assert result["locations"][0]["physicalLocation"]["region"]["snippet"]["text"] == "if x.sum() > 0:"
    assert "torch.where(x.sum() > 0, ..., ...)" in ended.stdout


def test_sarif_names_the_line_at_which_a_model_raises(check: Check, here: Path) -> None:
    check(*RAISES, "--sarif", "found.sarif")

    [run] = json.loads((here / "found.sarif").read_text())["runs"]
    [result] = run["results"]
    place = result["locations"][0]["physicalLocation"]
    assert (place["artifactLocation"]["uri"], place["region"]["startLine"]) == ("models/raises_in_forward.py", 9)


@pytest.mark.parametrize(
    ("arguments", "tag", "kind", "message"),
    [
        (BRANCHES, "failure", "rejected", "rejected: baked-value at branches_on_data.py:6: The trace keeps a value"),
        (RAISES, "error", "model-raised", "(model-raised)"),
    ],
    ids=["rejected", "raises"],
)
def test_junit_has_one_case_with_the_cause(
    check: Check, here: Path, arguments: tuple[str, ...], tag: str, kind: str, message: str
) -> None:
    check(*arguments, "--junit", "check.xml")

    case = ElementTree.parse(here / "check.xml").find("testsuite/testcase")
    assert case is not None
    assert case.get("name") == arguments[0]
    fault = case.find(tag)
    assert fault is not None
    assert (fault.get("type"), message in fault.get("message", "")) == (kind, True), fault.get("message")
    assert "emedy: " in (fault.text or "") or tag == "error"


def test_junit_counts_a_verified_model_as_passed(check: Check, here: Path) -> None:
    check(*LINEAR, "--junit", "check.xml")

    suite = ElementTree.parse(here / "check.xml").find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    assert "verdict: verified" in (suite.findtext("testcase/system-out") or "")


def test_the_page_is_the_services_without_what_only_a_service_has(check: Check, here: Path) -> None:
    check(*BRANCHES, "--html", "report.html")

    page = (here / "report.html").read_text()
    assert "<h1>Trace check of models/branches_on_data.py:Net</h1>" in page
    assert '<strong class="verdict rejected">' in page
    assert "if x.sum() &gt; 0:" in page
    assert "Counterexamples" in page
    assert [word for word in ("/artifacts/", "/findings/", "Signature") if word in page] == []


def test_the_archive_is_kept_and_answers_as_the_model_does(check: Check, here: Path) -> None:
    check(*LINEAR, "--output", "net.pt")

    archive = torch.jit.load(here / "net.pt")
    x = torch.ones(3, 4)
    state = archive.state_dict()
    assert torch.equal(archive(x), torch.nn.functional.linear(x, state["layer.weight"], state["layer.bias"]))


def test_each_of_several_artifacts_has_files_of_its_own(check: Check, here: Path) -> None:
    buckets = ["--dynamic", "ids:1=seq", "--dynamic", "mask:1=seq", "--buckets", "seq=4,8"]
    ended = check(*KEEPS, *buckets, "--output", "net.pt", "--html", "report.html")

    assert ended.exit_code in (0, 4), ended.output
    assert sorted(path.name for path in here.iterdir() if path.is_file()) == [
        "net-cpu-seq4.pt",
        "net-cpu-seq8.pt",
        "report-cpu-seq4.html",
        "report-cpu-seq8.html",
    ]


def test_a_project_directory_is_checked_with_its_files(check: Check, here: Path) -> None:
    package = here / "src" / "pkg"
    package.mkdir(parents=True)
    (package / "scale.json").write_text("2.0")
    (package / "weights.bin").write_bytes(b"\xff\xfe")
    (package / "net.py").write_text(
        "import json\nfrom pathlib import Path\n\nimport torch\n\nfrom . import shift\n\n"
        "SCALE = json.loads(Path(__file__).with_name('scale.json').read_text())\n\n\n"
        "class Net(torch.nn.Module):\n    def forward(self, x):\n        return shift.shift(x) * SCALE\n"
    )
    (package / "shift.py").write_text("def shift(x):\n    if x.max() > 1:\n        return x - 1\n    return x\n")
    ended = check("src", "pkg.net:Net", "--input", "1x4", "--sarif", "found.sarif")

    assert ended.exit_code == 3, ended.output
    assert "left out of the source, as it is no text in UTF-8: pkg/weights.bin" in ended.stderr
    [run] = json.loads((here / "found.sarif").read_text())["runs"]
    places = {one["ruleId"]: one["locations"][0]["physicalLocation"] for one in run["results"]}
    baked = places["baked-value"]
    assert (baked["artifactLocation"]["uri"], baked["region"]["startLine"]) == ("src/pkg/shift.py", 2)


def test_what_an_installed_package_has_is_checked(check: Check) -> None:
    ended = check("torch.nn:Linear", "--arg", "4", "--arg", "out_features=2", "--input", "1x4")

    assert (ended.exit_code, ended.stdout.endswith("\nverdict: verified\n")) == (0, True), ended.output


def test_a_package_outside_the_jail_is_named_with_its_directory(
    check: Check, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one is that is installed as editable."""
    (here / "lib" / "outside_the_jail").mkdir(parents=True)
    (here / "lib" / "outside_the_jail" / "__init__.py").write_text(text("linear"))
    monkeypatch.syspath_prepend(here / "lib")
    ended = check("outside_the_jail:Net", "--input", "1x4")

    assert (ended.exit_code, ended.stdout) == (2, "")
    assert f"tracehouse check {here / 'lib'} outside_the_jail:NAME" in ended.stderr
    assert check(str(here / "lib"), "outside_the_jail:Net", "--input", "1x4").exit_code == 0


def test_without_a_sandbox_it_says_so_in_one_line_and_goes_on(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose_tier, "fault_of", lambda _: "not here")
    ended = check(*LINEAR)

    assert ended.exit_code == 0, ended.output
    [line] = [line for line in ended.stderr.splitlines() if "confined" in line]
    assert line == "The code is NOT confined: it runs as you. tracehouse doctor says what would confine it."


def test_a_sandbox_that_is_asked_for_by_name_must_hold(check: Check, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose_tier, "fault_of", lambda _: "not here")
    monkeypatch.setenv("SANDBOX", "landlock")
    ended = check(*LINEAR)

    assert (ended.exit_code, "SANDBOX=landlock does not hold on this machine" in ended.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((*LINEAR, "--mode", "eager"), "a check needs a trace"),
        ((*LINEAR, "--device", "cuda"), "no sandbox lets CUDA in"),
        ((*LINEAR, "--html", "nowhere/report.html"), "there is no directory nowhere"),
        ((*LINEAR, "--html", "models/linear.py"), "models/linear.py is read by the check, and would be replaced"),
        ((*LINEAR, "--weights", "net.pt", "--output", "./net.pt"), "net.pt is read by the check"),
        ((*LINEAR, "--html", "report", "--sarif", "./report"), "report would be written twice"),
        ((*LINEAR, *TWO_DEVICES, "--html", "r.html", "--sarif", "r-cpu.html"), "r-cpu.html would be written twice"),
        ((*LINEAR, "--buckets", "n=4,8", "--html", "r", "--junit", "r-cpu-n4"), "r-cpu-n4 would be written twice"),
        ((*LINEAR, *TWO_DEVICES, "--weights", "net-cpu.pt", "--output", "net.pt"), "net-cpu.pt is read by the check"),
        ((*LINEAR, "--sarif", "/proc/self/nothing"), "/proc/self/nothing cannot be written (No such file"),
        ((*LINEAR, "--sarif", "/proc/self/nothing/r"), "there is no directory /proc/self/nothing"),
        ((*LINEAR, "--html", f"{'n' * 300}.html"), "cannot be written (File name too long)"),
        ((*LINEAR, "--html", "circle.html"), "circle.html cannot be written (it is a link that leads back to itself)"),
        ((*LINEAR, "--junit", "new/"), "new/ names a folder: name a file in it"),
        ((*LINEAR, "--output", "models"), "models cannot be written (Is a directory)"),
        (("models/linear.py:Net",), "--input 1x3x224x224"),
    ],
    ids=[
        "eager",
        "cuda",
        "no directory",
        "its source",
        "its weights",
        "twice",
        "device",
        "bucket",
        "weights of a device",
        "not writable",
        "no directory there",
        "too long",
        "circle",
        "new folder",
        "folder",
        "no input",
    ],
)
def test_a_slip_is_named_before_anything_runs(check: Check, here: Path, arguments: tuple[str, ...], why: str) -> None:
    (here / "net.pt").write_bytes(b"trained")
    (here / "net-cpu.pt").write_bytes(b"trained")
    (here / "circle.html").symlink_to("circle.html")
    ended = check(*arguments)

    assert (ended.exit_code, why in " ".join(ended.stderr.split())) == (2, True), ended.stderr
    assert "(2)" not in ended.stderr  # the exit itself is no reason
    assert ended.stdout == ""
    assert ((here / "net.pt").read_bytes(), (here / "models" / "linear.py").read_text()) == (b"trained", text("linear"))


def test_an_environment_that_is_not_there_is_named(check: Check, here: Path) -> None:
    ended = check(*LINEAR, "--environment", "vision")

    assert (ended.exit_code, "there is no environment 'vision' here" in ended.stderr) == (1, True)
    assert not (here / "tracehouse-state").exists()


def test_its_options_are_those_of_trace_but_for_what_a_service_does() -> None:
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]
    options = {name: {parameter.name for parameter in commands[name].params} for name in ("trace", "check")}

    assert options["trace"] - options["check"] == {
        "url",
        "key",
        "wait",
        "accept_unsound",
        "promote",
        "force",
        "as_json",
    }
    assert options["check"] - options["trace"] == {"html", "json", "sarif", "junit", "output"}
