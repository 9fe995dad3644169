"""What `tracehouse check` makes of a run: a text, a JSON document, and the files that its options name."""

import itertools
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import TypeAdapter, ValidationError

from service.cli import trace_report
from service.cli.exit_codes import exit_code_of
from service.cli.json_output import print_json
from service.cli.local_run import LocalRun
from service.cli.problem_lines import problem_lines
from service.cli.sources import NamedSource
from service.cli.usage_errors import refuse
from service.cli.written_file import file_to_write
from tracehouse.artifact.file_limits import SOURCES_MAX_BYTES
from tracehouse.artifact.manifest import Artifact
from tracehouse.artifact.printouts import Printouts
from tracehouse.client.whole_file import check_writable, written_whole
from tracehouse.contract.dims import format_sizes
from tracehouse.findings.verdict_sentence import verdict_sentence
from tracehouse.printable_text import printable
from tracehouse.report import junit, report, sarif
from tracehouse.report.counterexample_text import Arrays, read_inputs
from tracehouse.report.finding_text import INDENT, finding_lines, finding_title, worth_reading
from tracehouse.report.report_source import weight_of

if TYPE_CHECKING:  # imported where they are used, so that no other command waits for them
    from service.domain.outcome import Succeeded
    from tracehouse.errors import Failure

_SUITE = "tracehouse check"
_sources: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


@dataclass(frozen=True)
class OutputOptions:
    """What is written of the result, and where."""

    html: Annotated[
        Path | None, typer.Option(metavar="FILE", parser=file_to_write, help="Write the report, as one HTML page.")
    ] = None
    json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON, and nothing else on standard output.")
    ] = False
    sarif: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=file_to_write, help="Write the findings as SARIF 2.1.0, for code hosts."),
    ] = None
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", parser=file_to_write, help="Write the result as JUnit XML, with one test case."),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", parser=file_to_write, help="Write the archive for torch.jit.load, such as net.pt."
        ),
    ] = None
    printouts: Annotated[bool, typer.Option(help="Print the graph and the code.")] = False

    def check(self, inputs: Collection[Path], devices: Sequence[str], buckets: Mapping[str, Sequence[int]]) -> None:
        """Refuse, before anything runs, a file that cannot be written, or is to be written twice, or is an input."""
        written: set[Path] = set()
        for path in self._files(devices, buckets):
            try:
                _check_file(path, inputs, written)
            except OSError as error:
                refuse(f"{path} cannot be written ({error.strerror})")

    def _files(self, devices: Sequence[str], buckets: Mapping[str, Sequence[int]]) -> Iterator[Path]:
        """Yield all files that may be written: of one artifact, and of one for each device and each bucket."""
        yield from filter(None, (self.html, self.sarif, self.junit, self.output))
        sizes = [{}, *({symbol: size} for symbol, listed in buckets.items() for size in listed)]
        if len(devices) == len(sizes) == 1:
            return
        for path, device, bucket in itertools.product(filter(None, (self.html, self.output)), devices, sizes):
            yield _with_suffix(path, _suffix(device, bucket))


def _check_file(path: Path, inputs: Collection[Path], written: set[Path]) -> None:
    """Refuse the file if it cannot take what is written, and add it to those that are written."""
    if not path.absolute().parent.is_dir():
        refuse(f"{path} cannot be written: there is no directory {path.parent}")
    check_writable(path)
    if path.exists() and not path.is_file():  # such as /dev/stdout, where one follows the other
        return
    if path.exists() and any(map(path.samefile, inputs)):
        refuse(f"{path} is read by the check, and would be replaced: name another file")
    target = path.resolve()
    if target in written:
        refuse(f"{path} would be written twice, and the second would replace the first: name another file")
    written.add(target)


def write_success(run: LocalRun, outcome: "Succeeded", named: NamedSource, options: OutputOptions) -> None:
    """Print the result of a run that came to a verdict, and write the files."""
    documents = [_document(artifact) for artifact in outcome.artifacts]
    findings = [finding.model_dump(mode="json") for finding in outcome.findings]
    if options.json:
        print_json({"verdict": outcome.verdict.value, "findings": findings, "artifacts": documents, "problem": None})
    else:
        read = _read_printout_of(run, outcome) if options.printouts else None
        trace_report.print_result(findings, documents, read, _read_arrays_of(run, outcome), "check")
        trace_report.print_verdict(outcome.verdict.value, documents)
    if options.sarif is not None:
        places = _places(named)
        _write(options.sarif, sarif.render_findings(outcome.verdict, outcome.findings, places, version("tracehouse")))
    if options.junit is not None:
        _write(options.junit, junit.render(_SUITE, _case_of_verdict(run, outcome, named)))
    for artifact, suffix in _suffixes(outcome):
        if options.html is not None:
            page = report.page(artifact, artifact.digest, _read_sources(run, artifact), local_name=named.text)
            _write(_with_suffix(options.html, suffix), page.encode())
        if options.output is not None:
            _copy(run, artifact, _with_suffix(options.output, suffix))


def write_failure(run: LocalRun, failure: "Failure", named: NamedSource, options: OutputOptions) -> None:
    """Print why the model could not be traced, and write the files that can say it."""
    from service.api.problems import problem_of

    problem = problem_of(failure).model_dump(mode="json", exclude_none=True, exclude={"status", "type", "error"})
    lines = [printable(line) for line in problem_lines(problem, "check")]
    if options.json:
        print_json({"verdict": None, "findings": [], "artifacts": [], "problem": problem})
    for line in lines:
        typer.echo(line, err=True)
    if options.sarif is not None:
        _write(options.sarif, sarif.render_failure(failure, _places(named), version("tracehouse")))
    if options.junit is not None:
        fault = junit.Fault("error", failure.slug, lines[0])
        case = junit.Case(named.text, "\n".join(lines), run.seconds, fault)
        _write(options.junit, junit.render(_SUITE, case))
    for path in filter(None, (options.html, options.output)):
        typer.echo(f"{path} is not written: nothing was traced", err=True)


def _document(artifact: Artifact) -> dict[str, Any]:
    """Return an artifact as the service has it in JSON, but for links."""
    sentence = verdict_sentence(artifact.check, artifact.contract)
    return {**artifact.model_dump(mode="json"), "digest": artifact.digest, "verdict_sentence": sentence}


def _read_printout_of(run: LocalRun, outcome: "Succeeded") -> trace_report.ReadPrintout:
    by_digest = {artifact.digest: artifact for artifact in outcome.artifacts}

    def read(document: Mapping[str, Any], kind: Any, method: str) -> str:
        digest = document["digest"]
        with run.open(by_digest[digest].printouts) as file:
            return Printouts(file, digest).read(kind, method, "").text

    return read


def _read_arrays_of(run: LocalRun, outcome: "Succeeded") -> trace_report.ReadArrays:
    by_digest = {artifact.digest: artifact for artifact in outcome.artifacts}

    def read(document: Mapping[str, Any], number: int) -> Arrays:
        with run.open(by_digest[document["digest"]].counterexamples[number].arrays) as file:
            return read_inputs(file.read())

    return read


def _places(named: NamedSource) -> sarif.SourcePlaces:
    """Return where the source's files are, from the directory in which the command runs: the root of a repository."""
    anchor = None if named.anchor is None else _relative(named.anchor)
    return sarif.SourcePlaces({name: _relative(path) for name, path in named.paths.items()}, anchor)


def _relative(path: Path) -> str:
    return Path(os.path.relpath(path)).as_posix()


def _case_of_verdict(run: LocalRun, outcome: "Succeeded", named: NamedSource) -> junit.Case:
    sentence = "; ".join(dict.fromkeys(verdict_sentence(one.check, one.contract) for one in outcome.artifacts))
    findings = worth_reading(outcome.findings)
    lines = [line for finding in findings for line in finding_lines(finding)]
    read_arrays = _read_arrays_of(run, outcome)
    shown = [
        line for one in outcome.artifacts for line in trace_report.counterexample_lines(_document(one), read_arrays)
    ]
    if shown:
        lines += ["Counterexamples", *(f"{INDENT}{line}" for line in shown)]
    fault = None
    if exit_code_of(outcome.verdict):
        cause = next(
            (finding_title(one) for one in findings if weight_of(one) in ("harmful", "unknown")), "see the text"
        )
        fault = junit.Fault("failure", outcome.verdict.value, f"{sentence}: {cause}")
    return junit.Case(named.text, "\n".join([f"verdict: {sentence}", *lines]), run.seconds, fault)


def _suffixes(outcome: "Succeeded") -> Iterator[tuple[Artifact, str]]:
    """Yield each artifact with what its files' names have in addition, if there are several."""
    for artifact in outcome.artifacts:
        yield artifact, _suffix(artifact.device, artifact.bucket or {}) if len(outcome.artifacts) > 1 else ""


def _suffix(device: str, bucket: Mapping[str, int]) -> str:
    """Return what the names of an artifact's files have in addition, if there are several artifacts."""
    return f"-{device}-{format_sizes(bucket).replace(' ', '')}" if bucket else f"-{device}"


def _with_suffix(path: Path, suffix: str) -> Path:
    return path.with_name(f"{path.stem}{suffix}{path.suffix}")


def _read_sources(run: LocalRun, artifact: Artifact) -> dict[str, str]:
    """Return the sources by file name. The process that ran the model's code wrote them: none if unreadable."""
    if artifact.sources is None or artifact.sources.byte_size > SOURCES_MAX_BYTES:
        return {}
    with run.open(artifact.sources) as file:
        try:
            return _sources.validate_json(file.read())
        except ValidationError:
            return {}


def _write(path: Path, content: bytes) -> None:
    try:
        with written_whole(path) as file:
            file.write(content)
    except OSError as error:
        refuse(f"{path} cannot be written ({error.strerror})")


def _copy(run: LocalRun, artifact: Artifact, path: Path) -> None:
    try:
        with run.open(artifact.archive) as archive, written_whole(path) as file:
            shutil.copyfileobj(archive, file)
    except OSError as error:
        refuse(f"{path} cannot be written ({error.strerror})")
