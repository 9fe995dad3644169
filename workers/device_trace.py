"""A device trace: a trace request's artifact for one device. This side never looks into what it carries.

Three children: one traces; a second one has the eager model alone, and a third one the archive alone. What the first
one says is kept as what it says; the verdict is what the other two show. A fourth one has the archive as it was traced,
where it is served in another form, or where gradients are compared.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

from service.domain.trace_request import Stage, TraceRequest
from service.protocol.messages import Failed
from service.protocol.tracer import File, LayerDone, Progress, Traced
from service.sandbox.child import Child, Exit
from service.storage.blobs import Staged
from tracehouse.artifact.archive_extras import CHECK, CONTRACT, GOLDEN, CheckSummary
from tracehouse.artifact.conversion_attempt import ConversionAttempt
from tracehouse.artifact.counterexample import Counterexample
from tracehouse.artifact.exportability import Exportability
from tracehouse.artifact.manifest import Artifact, Form
from tracehouse.contract.contract import Contract
from tracehouse.differential import golden
from tracehouse.errors import TraceError
from tracehouse.findings.trace_check import Finding, Layer, TraceCheck, Verdict
from tracehouse.reproducer import counterexamples, pytest_file
from tracehouse.reproducer.counterexamples import Found
from tracehouse.spec.conversion import Conversion, ScriptTarget
from tracehouse.spec.trace_spec import DeviceName
from workers.limits import TraceLimits
from workers.processes import packer
from workers.processes.children import Children
from workers.processes.eager import RUNNER, ArtifactProcess, EagerProcess
from workers.processes.exits import of_archive, of_model, of_upload, talking, told
from workers.processes.export_progress import Exports
from workers.processes.tracer import TRACER, HandedOver, TracerProcess
from workers.verification.examples import Prepared, Sides, prepare
from workers.verification.verification import Verification, Verified


class DeviceTrace:
    """`run` it, which ends its children, and then have what came of it `stored`.

    `stage` gives files that stay until the attempt ends, `report` is told of each stage, `report_layer` of each layer
    of the check.
    """

    def __init__(
        self,
        request: TraceRequest,
        device: DeviceName,
        way: Conversion,
        children: Children,
        report: Callable[[Stage, float], object],
        report_layer: Callable[[DeviceName, Layer], object],
        stage: Callable[[], Staged],
    ) -> None:
        self._request = request
        self._device = device
        self.way = way
        self._children = children
        self._report = report
        self._report_layer = report_layer
        self._stage = stage
        self._held = ExitStack()  # until `run` ends
        self._eager: EagerProcess | None = None
        self._prepared: Future[Prepared]  # from when the archive is there
        self._exportability: Exportability | None = None
        self._handed_over: HandedOver
        self._verified: Verified
        self.attempts: list[ConversionAttempt] = []

    def run(self) -> None:
        """Raises TraceError."""
        with self._held:
            self._handed_over = self._traced()
            # From here on the archive is what its hash says, and nobody is left who could act on what is drawn.
            self._report(Stage.VERIFYING, 0.8)
            verification = Verification(self._prepared.result(), self._handed_over.traced)
            self._verified = verification.run(self._handed_over.offered)

    @property
    def check(self) -> TraceCheck:
        """What came of it, once it ran."""
        return self._verified.check

    @property
    def findings(self) -> list[Finding]:
        """Those of the check, with what is to be said of other ways once these were tried."""
        return self.check.findings

    @findings.setter
    def findings(self, findings: list[Finding]) -> None:
        self._verified = replace(self._verified, check=self.check.model_copy(update={"findings": findings}))

    @property
    def contract(self) -> Contract:
        """What it is right for, once it ran."""
        return self._verified.contract

    @property
    def form(self) -> Form:
        return self._handed_over.traced.form

    @property
    def in_doubt(self) -> list[ScriptTarget]:
        """The parts of the model that are worth being scripted, as the tracing child says: nobody's verdict hangs on
        it."""
        return self._handed_over.traced.in_doubt

    def stored(self) -> Artifact:
        """Its files are blobs when this returns, and the archive carries what they say. Raises TraceError."""
        archive, cases = self._packed()
        files = {**self._handed_over.files, "archive": archive, "golden": cases}
        blobs = {name: staged.commit() for name, staged in files.items()}
        spec, said = self._request.spec, self._handed_over.traced
        return Artifact(
            device=self._device,
            entrypoint=said.entrypoint,
            form=said.form,
            attempts=self.attempts,
            training=spec.training,
            precision=spec.options.precision,
            contract=self._verified.contract,
            check=self._verified.check,
            archive=blobs["archive"],
            printouts=blobs["printouts"],
            golden=blobs["golden"],
            sources=blobs.get("sources"),
            counterexamples=[self._counterexample(found) for found in self._verified.counterexamples],
            bucket=self.way.sizes,
            exported=blobs.get("exported"),
            exportability=self._exportability,
            freeze=spec.options.freeze,
            optimize_for_inference=spec.options.optimize_for_inference,
            submodules=said.submodules,
            parameters=said.parameters,
            buffers=said.buffers,
            attributes=said.attributes,
            constants=said.constants,
            missing_weights=said.missing_weights,
            unexpected_weights=said.unexpected_weights,
            versions=said.versions,
        )

    def _counterexample(self, found: Found) -> Counterexample:
        """As arrays, and as a test."""
        arrays, test = self._stage(), self._stage()
        arrays.write(counterexamples.arrays(found))
        text = pytest_file.written(found, self._request.spec, self.way, self._device, self._children.uploaded)
        test.write(text.encode())
        return found.kept(arrays.commit(), test.commit())

    def _traced(self) -> HandedOver:
        """What the tracing child leaves, when it is gone."""
        children = self._children
        with ExitStack() as while_it_lives:
            # The first way's prints are the request's log: others that mode auto tries would say the same again.
            printing = self.way == self._request.spec.way
            child = children.forked(while_it_lives, TRACER, self._device, printing=printing)
            request = children.told_to_trace(self._device, self.way, children.limits.threads)
            tracer = TracerProcess(child, request, children.limits, children.until, children.printed, self._stage)
            try:
                with talking(child, children.limits, children.cancellation, self._blame):
                    tracer.start()
                    said = self._heard(tracer)
                if isinstance(said, Traced) and self._request.spec.options.exportability:
                    self._exportability = self._heard_of_export(tracer, child, said)
            except BaseException:
                child.kill()
                raise
            finally:
                children.let_end(child)
            if isinstance(said, Failed):
                raise told(said.failure, child, program=TRACER, trace_request=self._request.id)
        return tracer.handed_over(said)

    def _blame(self, end: Exit, limits: TraceLimits) -> TraceError:
        is_loading = self._eager is None
        return (of_upload if is_loading and self._request.spec.source.archive is not None else of_model)(end, limits)

    def _heard(self, tracer: TracerProcess) -> Traced | Failed:
        while True:
            match said := tracer.hear():
                case LayerDone():
                    self._report_layer(self._device, said.layer)
                case Progress():
                    self._report(said.stage, said.progress)
                    if self._eager is None and said.stage.is_after(Stage.LOADING):  # so it is worth loading once more
                        self._start_eager()
                case File(name="archive"):
                    self._start_verification(tracer.files["archive"])
                case Traced() | Failed():
                    return said

    def _heard_of_export(self, tracer: TracerProcess, child: Child, said: Traced) -> Exportability:
        """Whatever goes wrong there costs no more than that: the trace is here."""
        self._report(Stage.EXPORTING, 0.8)
        children = self._children
        exports = Exports(self._request.spec.calls, said.form)
        try:
            with talking(child, children.limits, children.cancellation, of_model):
                tracer.hear_exports(exports)
        except TraceError as error:
            child.kill()
            exports.cut_short(error.detail)
        return exports.exportability

    def _start_eager(self) -> EagerProcess:
        """It loads while the tracing child works on, and is told nothing of what that one makes."""
        self._eager = self._children.eager(self._held, self._device, self.way)
        return self._eager

    def _packed(self) -> tuple[Staged, Staged]:
        """The archive with its contract and golden cases in it, which gives what they say; and these cases."""
        cases, packed = self._stage(), self._stage()
        data = golden.write(self._verified.golden)
        cases.write(data)
        archive = self._handed_over.files["archive"]
        extra = {CONTRACT: self._verified.contract.model_dump_json().encode(), CHECK: self._summary(), GOLDEN: data}
        with ExitStack() as held:
            self._pack(held, archive, extra, packed)
            archive.discard()
            self._replay(held, packed, cases)
        return packed, cases

    def _pack(self, held: ExitStack, archive: Staged, extra: dict[str, bytes], packed: Staged) -> None:
        children = self._children
        child = self._forked_with(held, packer.PACKER, archive)
        with talking(child, children.limits, children.cancellation, of_archive):
            failed = packer.pack(child.channel, archive, extra, packed, children.until)
        if failed is not None:
            raise told(failed.failure, child, program=packer.PACKER, trace_request=self._request.id)

    def _replay(self, held: ExitStack, packed: Staged, cases: Staged) -> None:
        """These bytes are what is kept and served; the disk has them meanwhile. Raises ArchiveUnusable."""
        check = self._verified.check
        beside = held.enter_context(ThreadPoolExecutor(1, thread_name_prefix="packing"))
        beside.submit(packed.sync)  # a failure there shows in the commit
        side = self._as_side(self._forked_with(held, RUNNER, packed, cases))
        tolerance = None if check.verdict is Verdict.REJECTED else check.tolerance
        side.start_replaying(self._request.spec, self._device, self._verified.contract, tolerance)
        side.wait()

    def _summary(self) -> bytes:
        said, check = self._handed_over.traced, self._verified.check
        summary = CheckSummary(
            verdict=check.verdict,
            tolerance=check.tolerance,
            device=self._device,
            form=said.form,
            served_form=self._request.spec.options.served_form,
            bucket=self.way.sizes,
            findings=check.findings,
            versions=said.versions,
        )
        return summary.model_dump_json().encode()

    def _start_verification(self, archive: Staged) -> None:
        """On exactly the bytes that came and were hashed: nobody can write them any more, and no others are taken."""
        eager = self._eager or self._start_eager()  # the tracing child need not have told of its stages
        spec = self._request.spec
        artifact, as_traced = self._artifact(archive), None
        artifact.start(spec, self._device)
        if spec.options.served_form is not None or spec.check.gradients:
            as_traced = self._artifact(archive)
            as_traced.start_as_traced(spec, self._device)
        beside = ThreadPoolExecutor(1, thread_name_prefix="verification")
        self._prepared = beside.submit(prepare, Sides(spec, eager, artifact, as_traced))
        # Callbacks run last in, first out: the sides are killed, which wakes the thread, and then it is waited for.
        self._held.callback(beside.shutdown)
        for side in (eager, artifact, as_traced):
            if side is not None:
                self._held.callback(side.kill)

    def _artifact(self, archive: Staged) -> ArtifactProcess:
        return self._as_side(self._forked_with(self._held, RUNNER, archive))

    def _as_side(self, child: Child) -> ArtifactProcess:
        children = self._children
        return ArtifactProcess(child, children.limits, children.cancellation, children.until)

    def _forked_with(self, held: ExitStack, program: str, *staged: Staged) -> Child:
        with ExitStack() as opened:
            files = [opened.enter_context(one.open()).fileno() for one in staged]
            return self._children.forked(held, program, self._device, *files, profile="infer")
