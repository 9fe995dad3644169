"""A device trace: a trace request's artifact for one device. This side never looks into what it carries.

Three children: one traces; a second one has the eager model alone, and a third one the archive alone. What the first
one says is kept as what it says; the verdict is what the other two show. A fourth one has the archive as it was traced,
where it is served in another form, or where gradients are compared.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

from service.domain.artifact import Artifact, Form
from service.domain.errors import TraceError
from service.domain.exportability import Exportability
from service.domain.trace_check import TraceCheck
from service.domain.trace_request import DeviceName, Stage, TraceRequest
from service.domain.way import Part, Tried, Way
from service.sandbox.child import Child, Exit
from service.sandbox.messages import Failed, File, Progress, Traced
from service.storage.blobs import Staged
from workers import golden
from workers.tracing.children import Children
from workers.tracing.ends import of_model, of_upload, talking, told
from workers.tracing.exportability import Exports
from workers.tracing.limits import TraceLimits
from workers.tracing.sides import RUNNER, ArtifactSide, EagerSide
from workers.tracing.tracer import TRACER, HandedOver, TracerSide
from workers.tracing.verification import Prepared, Sides, Verification, Verified, prepare


class DeviceTrace:
    """`run` it, which ends its children, and then have what came of it `stored`.

    `stage` gives files that stay until the attempt ends, `report` is told of each stage.
    """

    def __init__(
        self,
        request: TraceRequest,
        device: DeviceName,
        way: Way,
        children: Children,
        report: Callable[[Stage, float], object],
        stage: Callable[[], Staged],
    ) -> None:
        self._request = request
        self._device = device
        self._way = way
        self._children = children
        self._report = report
        self._stage = stage
        self._held = ExitStack()  # until `run` ends
        self._eager: EagerSide | None = None
        self._prepared: Future[Prepared]  # from when the archive is there
        self._exportability: Exportability | None = None
        self._handed_over: HandedOver
        self._verified: Verified
        self.tried: list[Tried] = []

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
    def form(self) -> Form:
        return self._handed_over.traced.form

    @property
    def in_doubt(self) -> list[Part]:
        """The parts of the model that are worth being scripted, as the tracing child says: nobody's verdict hangs on
        it."""
        return self._handed_over.traced.in_doubt

    def stored(self) -> Artifact:
        """Its files are blobs when this returns."""
        cases = self._stage()
        cases.write(golden.write(self._verified.golden))
        blobs = {name: staged.commit() for name, staged in {**self._handed_over.files, "golden": cases}.items()}
        spec, said = self._request.spec, self._handed_over.traced
        return Artifact(
            device=self._device,
            entrypoint=said.entrypoint,
            form=said.form,
            tried=self.tried,
            training=spec.training,
            precision=spec.options.precision,
            contract=self._verified.contract,
            check=self._verified.check,
            archive=blobs["archive"],
            printouts=blobs["printouts"],
            golden=blobs["golden"],
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

    def _traced(self) -> HandedOver:
        """What the tracing child leaves, when it is gone."""
        children = self._children
        with ExitStack() as while_it_lives:
            # The first way's prints are the request's log: others that mode auto tries would say the same again.
            printing = self._way == self._request.spec.way
            child = children.forked(while_it_lives, TRACER, self._device, printing=printing)
            request = children.told_to_trace(self._device, self._way, children.limits.threads)
            tracer = TracerSide(child, request, children.limits, children.until, children.printed, self._stage)
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

    def _heard(self, tracer: TracerSide) -> Traced | Failed:
        while True:
            match said := tracer.hear():
                case Progress():
                    self._report(said.stage, said.progress)
                    if self._eager is None and said.stage.is_after(Stage.LOADING):  # so it is worth loading once more
                        self._start_eager()
                case File(name="archive"):
                    self._start_verification(tracer.files["archive"])
                case Traced() | Failed():
                    return said

    def _heard_of_export(self, tracer: TracerSide, child: Child, said: Traced) -> Exportability:
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

    def _start_eager(self) -> EagerSide:
        """It loads while the tracing child works on, and is told nothing of what that one makes."""
        self._eager = self._children.eager(self._held, self._device, self._way)
        return self._eager

    def _start_verification(self, archive: Staged) -> None:
        """On exactly the bytes that came and were hashed: nobody can write them any more, and no others are taken."""
        eager = self._eager or self._start_eager()  # the tracing child need not have told of its stages
        spec = self._request.spec
        artifact, as_traced = self._artifact(archive), None
        artifact.start(spec, self._device)
        if spec.options.served_form is not None or spec.check.gradients:
            as_traced = self._artifact(archive)
            as_traced.start_as_traced(spec, self._device)
        # One thread: the examples first, and the disk beside all that follows. A failure there shows in the commit.
        beside = ThreadPoolExecutor(1, thread_name_prefix="verification")
        self._prepared = beside.submit(prepare, Sides(spec, eager, artifact, as_traced))
        beside.submit(archive.sync)
        # Callbacks run last in, first out: the sides are killed, which wakes the thread, and then it is waited for.
        self._held.callback(beside.shutdown)
        for side in (eager, artifact, as_traced):
            if side is not None:
                self._held.callback(side.kill)

    def _artifact(self, archive: Staged) -> ArtifactSide:
        children = self._children
        with archive.open() as file:
            child = children.forked(self._held, RUNNER, self._device, file.fileno(), profile="infer")
        return ArtifactSide(child, children.limits, children.cancellation, children.until)
