"""State trials: calls with other values in place of the state that a call leaves show whether answers depend on it."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from tracehouse.check.calls import CallResult, call_model
from tracehouse.check.inputs.probes import generate_probes
from tracehouse.check.instrumentation import hidden_state
from tracehouse.check.instrumentation.taint import Taint
from tracehouse.check.instrumentation.value_reads import ReadRecorder
from tracehouse.check.time_limit import TooSlow, time_limit
from tracehouse.differential.call_limits import CALL_LIMITS
from tracehouse.eager import state_snapshot
from tracehouse.eager.call import Call
from tracehouse.eager.model import LoadedModel
from tracehouse.errors import ModelRaised
from tracehouse.findings.finding import Effect
from tracehouse.introspection import script_graphs, user_lines

# The path of a submodule, or the name of what all copies share; and the name of an attribute of it.
StateKey = tuple[str, str]


@dataclass(frozen=True)
class HiddenState:
    """State that a call reads and then changes, so that it passes from call to call.

    `line` is the first line that reads it, if known. `effect` says whether an answer can depend on it.
    """

    name: str
    line: user_lines.Line | None
    effect: Effect = "unknown"
    reason: str = "no other value was tried in its place"


class StateTrials:
    """Calls the model with other values in place of the state that calls leave, each time in a new copy.

    Every trial calls the model on the example `call` and, if the model accepts them, on other values of the same
    shapes. `call_s` is how many seconds a call on the example took.
    """

    def __init__(self, model: LoadedModel, seed: int, call: Call, call_s: float) -> None:
        self._model = model
        self._seed = seed
        self._example = call
        self._call_s = call_s
        self._calls = [call, *(varied for _, varied in list(generate_probes(call, searching=False))[:1])]
        self._comparands: set[float] = set()  # numbers that tensors were compared with in the calls so far

    def judge(
        self, module: torch.nn.Module, lines: Mapping[StateKey, user_lines.Line | None], shared: set[StateKey]
    ) -> list[HiddenState]:
        """Return each state of `lines` with its effect on the answers.

        `lines` has the line that reads each state first. `module` is a copy that was called before. `shared` are the
        keys of what all copies share. `CALL_LIMITS` bounds the seconds of each trial and of all of them; states that
        are left then have the effect "unknown".
        """
        until = time.monotonic() + CALL_LIMITS.state_trials.after(self._call_s)
        within_s = CALL_LIMITS.state_trial.after(self._call_s)
        try:
            settled = self._find_settled(module, set(lines), shared, within_s)
        except TooSlow as slow:
            why = f"a later call on the example was stopped: {slow}"
            return [HiddenState(self._name(key, shared), line, "unknown", why) for key, line in lines.items()]
        values = {key: hidden_state.copy_content(self._read(module, key, shared)) for key in lines}
        states = []
        for key, line in lines.items():
            name = self._name(key, shared)
            if key in settled:
                states.append(HiddenState(name, line, "harmless", "every call leaves the same value in it"))
                continue
            run = partial(self._run, key, key in shared, within_s)
            judged = hidden_state.judge_state(
                values[key], run, lambda: self._comparands, lambda: time.monotonic() > until
            )
            states.append(HiddenState(name, line, judged.effect, judged.reason))
        return states

    def _find_settled(
        self, module: torch.nn.Module, keys: set[StateKey], shared: set[StateKey], within_s: float
    ) -> set[StateKey]:
        """Return the states that calls on other inputs leave as they were, such as weights kept to a norm.

        A state that is computed from the inputs is none of them, unless it is a parameter: a flag that a rare value
        sets, say, may change in a call that nobody made. A call that the model refuses is left out of the trials to
        come. Raises TooSlow for the example.
        """
        before = {key: hidden_state.copy_content(self._read(module, key, shared)) for key in keys}
        settled = keys if len(self._calls) > 1 else set()
        for call in self._calls[::-1]:
            try:
                with ReadRecorder(call) as reading:
                    call_model(module, call, self._seed, within_s=within_s)
            except (ModelRaised, TooSlow) as error:
                if call is self._example and isinstance(error, TooSlow):
                    raise
                self._calls = [other for other in self._calls if other is not call]
                return set()
            left = {key: self._read(module, key, shared) for key in settled}
            settled = {
                key
                for key, value in left.items()
                if hidden_state.is_same_content(before[key], value) and not _is_computed(value, reading.taint)
            }
        return settled

    def _run(self, key: StateKey, is_shared: bool, within_s: float, value: Any) -> Sequence[Any]:
        """Return the outputs of all calls, each of a new copy that has `value` in the place of the state."""
        outputs = []
        for call in self._calls:
            module = self._model.copy_module()
            self._write(module, key, written := hidden_state.copy_state(value), is_shared)
            if is_shared and self._model.shared.read(key) is not written:
                raise TypeError("the state cannot be written")
            outputs.append(self._call(module, call, within_s).outputs)
        self._model.shared.restore()
        return outputs

    def _call(self, module: torch.nn.Module, call: Call, within_s: float) -> CallResult:
        """Return the answer to one call. Raises what it raises, and TooSlow."""
        try:
            with time_limit(within_s), ReadRecorder(call) as reading:
                return call_model(module, call, self._seed)
        finally:
            self._comparands |= reading.taint.numbers

    def _name(self, key: StateKey, shared: set[StateKey]) -> str:
        return ".".join(key) if key in shared else script_graphs.join_path(*key)

    def _read(self, module: torch.nn.Module, key: StateKey, shared: set[StateKey]) -> Any:
        return self._model.shared.read(key) if key in shared else state_snapshot.read(module, key)

    def _write(self, module: torch.nn.Module, key: StateKey, value: Any, is_shared: bool) -> None:
        if is_shared:
            self._model.shared.write(key, value)
        else:
            state_snapshot.write(module, key, value)


def _is_computed(state: Any, taint: Taint) -> bool:
    """Whether a tensor in a state follows from the values of the inputs. A parameter does not count."""
    return any(one in taint for one in hidden_state.find_tensors(state) if not isinstance(one, torch.nn.Parameter))
