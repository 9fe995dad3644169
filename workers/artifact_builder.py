"""The artifact builder: an artifact of a device trace's result, with its files as blobs."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

from service.domain.trace_request import TraceRequest
from service.storage.blobs import StagedBlob
from tracehouse.artifact.archive_extras import CHECK, CONTRACT, GOLDEN, CheckSummary, contract_document
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.artifact.manifest import Artifact
from tracehouse.differential import golden
from tracehouse.findings.kinds import Kind
from tracehouse.reproducer import counterexamples, pytest_file
from tracehouse.reproducer.counterexamples import FoundCounterexample
from tracehouse.step_times import step
from workers.device_trace import DeviceResult
from workers.processes import packer
from workers.processes.children import Children
from workers.processes.exits import error_of_failure, explain_archive_exit, translate_errors


class ArtifactBuilder:
    """Builds the artifacts of one attempt. `stage_file` gives files that stay until the attempt ends."""

    def __init__(self, request: TraceRequest, children: Children, stage_file: Callable[[], StagedBlob]) -> None:
        self._request = request
        self._children = children
        self._stage_file = stage_file

    def build(self, result: DeviceResult) -> Artifact:
        """Store the result's files and return the artifact. Raises TraceError.

        The stored archive carries contract, check and golden cases, and has replayed the cases before this returns.
        """
        files = {**result.tracer.files, "golden": self._pack(result)}
        # At once: each commit waits several times for the disk, which does the same for all of them.
        with step("store"), ThreadPoolExecutor(len(files), thread_name_prefix="storing") as executor:
            blobs = dict(zip(files, executor.map(StagedBlob.commit, files.values()), strict=True))
        spec, traced, verified = self._request.spec, result.tracer.traced, result.verification
        return Artifact(
            device=result.device,
            entrypoint=traced.entrypoint,
            form=traced.form,
            conversion=result.conversion,
            attempts=[*result.attempts],
            training=spec.training,
            precision=spec.options.precision,
            contract=verified.contract,
            check=verified.check,
            archive=blobs["archive"],
            printouts=blobs["printouts"],
            golden=blobs["golden"],
            sources=blobs.get("sources"),
            counterexamples=[self._store_counterexample(found, result) for found in verified.counterexamples],
            bucket=result.conversion.sizes,
            exported=blobs.get("exported"),
            exportability=result.exportability,
            freeze=spec.options.freeze,
            optimize_for_inference=spec.options.optimize_for_inference,
            submodules=traced.submodules,
            parameters=traced.parameters,
            buffers=traced.buffers,
            attributes=traced.attributes,
            constants=traced.constants,
            missing_weights=traced.missing_weights,
            unexpected_weights=traced.unexpected_weights,
            environment=self._request.environment,
            versions=traced.versions,
        )

    def build_further(self, result: DeviceResult, earlier: Artifact, digest: str, *, refutes: bool) -> Artifact:
        """Store what a further check found, and return the artifact. Raises TraceError.

        All that the check does not decide is what the earlier artifact, which the digest names, has. The archive keeps
        its bytes, with the first check's contract in it, and has replayed the new golden cases before this returns. But
        if the check refutes the earlier contract, the archive carries the new one.
        """
        files = {**result.tracer.files, "golden": self._pack(result) if refutes else self._write_replayed(result)}
        del files["printouts"]  # those of the earlier artifact are the same
        with step("store"):
            blobs = {name: staged.commit() for name, staged in files.items()}
        verified = result.verification
        return earlier.model_copy(
            update={
                "contract": verified.contract,
                "check": verified.check,
                "archive": blobs["archive"],
                "golden": blobs["golden"],
                "sources": blobs.get("sources"),
                "counterexamples": [self._store_counterexample(found, result) for found in verified.counterexamples],
                "continues": digest,
            }
        )

    def _store_counterexample(self, found: FoundCounterexample, result: DeviceResult) -> Counterexample:
        """Store the counterexample as arrays and as a test."""
        arrays, test = self._stage_file(), self._stage_file()
        diverging = found.diverging
        arrays.write(counterexamples.encode_arrays(diverging.inputs, diverging.eager, diverging.artifact))
        text = pytest_file.render_test(
            found,
            self._request.spec,
            result.conversion,
            result.device,
            self._children.read_upload,
            inlines=any(finding.kind == Kind.AUTOGRAD_FUNCTION_INLINED for finding in result.check.findings),
            without_fast_paths=result.verification.contract.without_fast_paths,
        )
        test.write(text.encode())
        return found.to_manifest(arrays.commit(), test.commit())

    def _pack(self, result: DeviceResult) -> StagedBlob:
        """Put contract, check and golden cases into the archive, and return the golden cases."""
        verified = result.verification
        data = golden.encode(verified.golden)
        cases = self._write_golden(data)
        summary = self._summary(result).model_dump_json().encode()
        extra = {CONTRACT: contract_document(verified.contract), CHECK: summary, GOLDEN: data}
        with step("end of processes"), ExitStack() as stack:
            with step("pack"):
                self._run_packer(stack, result, extra)
            with step("replay"):
                self._replay(stack, result, cases)
        return cases

    def _write_replayed(self, result: DeviceResult) -> StagedBlob:
        """Return the golden cases, which the archive as it is has replayed."""
        cases = self._write_golden(golden.encode(result.verification.golden))
        with step("end of processes"), ExitStack() as stack, step("replay"):
            self._replay(stack, result, cases)
        return cases

    def _write_golden(self, data: bytes) -> StagedBlob:
        cases = self._stage_file()
        cases.write(data)
        return cases

    def _run_packer(self, stack: ExitStack, result: DeviceResult, extra: dict[str, bytes]) -> None:
        children, archive = self._children, result.tracer.files["archive"]
        child = children.fork_with(stack, packer.PACKER, result.device, archive)
        with translate_errors(child, children.limits, children.cancellation, explain_archive_exit):
            failed = packer.pack(child.channel, archive, extra, children.until)
        if failed is not None:
            raise error_of_failure(failed.failure, child, program=packer.PACKER, trace_request=self._request.id)

    def _replay(self, stack: ExitStack, result: DeviceResult, cases: StagedBlob) -> None:
        """Replay the golden cases on the very bytes that are stored and served. Raises ArchiveUnusable."""
        packed, check = result.tracer.files["archive"], result.check
        executor = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="packing"))
        for staged in [*result.tracer.files.values(), cases]:
            executor.submit(staged.sync)  # the disk works meanwhile; a failure there shows in the commit
        artifact = self._children.fork_artifact(stack, result.device, packed, cases)
        tolerance = None if result.is_rejected else golden.replay_tolerance(check.tolerance)
        artifact.start_replaying(self._request.spec, result.device, result.verification.contract, tolerance)
        artifact.wait()

    def _summary(self, result: DeviceResult) -> CheckSummary:
        traced, check = result.tracer.traced, result.check
        return CheckSummary(
            verdict=check.verdict,
            tolerance=check.tolerance,
            device=result.device,
            form=traced.form,
            served_form=self._request.spec.options.served_form,
            bucket=result.conversion.sizes,
            findings=check.findings,
            versions=traced.versions,
        )
