"""Forms: which form of an artifact answers here. The form as saved, until a race has found another one.

The results are files in a directory, one for each artifact, kind of machine, and versions of torch and of the other
runtimes, so that the next start takes them up. A form that raised, was lost or took too long while it answered is taken
back as long as these are the same.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from service.domain.form_race import REGIONS_MAX, FormRace, FormTrial
from service.sandbox.cancellation import Cancellation
from service.serving.machine_files import FilesByThreads
from service.serving.trial_rules import why_no_trial
from service.serving.trial_thread import TrialThread
from tracehouse.artifact.manifest import Artifact
from tracehouse.spec.raced_form import RacedForm
from tracehouse.tensors.tensor import Datatype

_FEW_DIGITS = {Datatype.FP16, Datatype.BF16}

# Runs the race of an artifact, with so many threads, on the thread that calls it; None if it had to give way.
RunRace = Callable[[Artifact, int, Cancellation], Sequence[FormTrial] | None]

_log = logging.getLogger(__name__)


class Forms:
    """The results of races, and the one race that runs. All but `find` belongs to the event loop."""

    def __init__(
        self,
        directory: Path,
        run: RunRace,
        *,
        machine: Callable[[int], str],
        torch_version: str,
        packages: Mapping[str, str | None],
    ) -> None:
        """`packages` are the versions of other runtimes' packages; None for one that is not installed."""
        self._packages = dict(packages)
        used = " ".join(f"{name} {version}" for name, version in sorted(self._packages.items()))
        self._files = FilesByThreads(directory, FormRace, machine=machine, torch_version=torch_version, used=used)
        self._run = run
        self._trial = TrialThread("form-race")

    def find(self, digest: str, threads: int) -> FormRace | None:
        """Return what is known of the artifact's forms on this kind of machine with so many threads.

        It may read a file, on any thread.
        """
        return self._files.of(threads).find(digest)

    async def race(self, artifact: Artifact, digest: str, threads: int) -> FormRace | None:
        """Return the result for the artifact, after a race if there is none yet; None if the race had to give way.

        One race runs at a time.
        """
        return await self._trial.run(partial(self._race, artifact, digest, threads))

    async def take_back(self, digest: str, threads: int, form: RacedForm, why: str) -> None:
        """Have the form as saved answer from now on, on this kind of machine."""
        found = await asyncio.to_thread(self.find, digest, threads)
        if found is None or found.answers is not form:
            return
        _log.warning("a form was taken back", extra={"artifact": digest, "form": form.value, "reason": why})
        await asyncio.to_thread(self._files.of(threads).keep, found.without(form, why))

    def give_way(self) -> None:
        """End the race that runs: others need the memory. It is run again later."""
        self._trial.give_way()

    def close(self) -> None:
        self._trial.close()

    def _race(self, artifact: Artifact, digest: str, threads: int, cancellation: Cancellation) -> FormRace | None:
        files = self._files.of(threads)
        if (known := self.find(digest, threads)) is not None:
            return known
        why = why_saved(artifact)
        trials = [] if why is not None else self._run(artifact, threads, cancellation)
        if trials is None:
            return None
        found = FormRace.of(
            digest, files.machine, files.torch_version, datetime.now(UTC), trials, packages=self._packages, why=why
        )
        files.keep(found)
        answers = "saved" if found.answers is None else found.answers.value
        _log.info("forms raced", extra={"artifact": digest, "answers": answers, "reason": found.why})
        return found


def why_saved(artifact: Artifact) -> str | None:
    """Return why the artifact has no other form than the one as saved, as far as its manifest says it; or None."""
    if (why := why_no_trial(artifact)) is not None:
        return why
    if artifact.served_form is not None:
        return f"its request chose the form {artifact.served_form}"
    method = artifact.contract.methods["forward"]
    if artifact.contract.open or method.other_ranks:
        return "its contract takes more than calls can go through: it is open, or has inputs of several ranks"
    if len(method.regions) > REGIONS_MAX:
        return f"its contract has {len(method.regions)} regions of sizes, and calls go through {REGIONS_MAX}"
    if method.stochastic:
        return "it draws random numbers"
    if artifact.precision is not None or any(one.datatype in _FEW_DIGITS for one in method.outputs):
        return "it answers in a format with few digits, where forms cannot be told from rounding"
    return None
