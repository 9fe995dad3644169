"""Explained values: what differs in the graph of a trace on other values only because of reads that are known.

The model is traced on the same other values, and the wrong reads give what they gave on the example. What is gone from
the graph then was a consequence of them.
"""

from collections.abc import Sequence

from tracehouse.check.flip.flip import ReadEffect
from tracehouse.check.graph_diff.canonical import find_divergences
from tracehouse.check.graphs.baked_values import BakedValue
from tracehouse.check.instrumentation.value_reads import ReadRecorder
from tracehouse.check.observe import Observation, watch_trace
from tracehouse.check.target import Target
from tracehouse.check.time_limit import TooSlow

_DIVERGENCES_MAX = 12  # so many differences of two graphs are looked at; a choice


def find_explained(
    target: Target, judged: Sequence[ReadEffect], values: Sequence[BakedValue], observation: Observation
) -> list[BakedValue]:
    """Return the values in the graph that follow from wrong reads on other lines. Nothing that tracing raises comes
    out."""
    wrong = [one.read for one in judged if one.effect == "harmful"]
    lines = {read.line for read in wrong}
    replays = [replay for read in wrong if (replay := read.replay) is not None]
    if not replays or observation.baseline is None:
        return []
    explained = []
    for value in values:
        if value.cause != "values" or value.line in lines:
            continue
        recorder = ReadRecorder(value.call, *replays, in_torch=observation.in_torch)
        try:
            graph = watch_trace(target, recorder, value.call, observation.retrace_s)
        except (Exception, TooSlow):  # noqa: BLE001 - submitted code: anything may follow from a value that is not there
            continue
        left = find_divergences(observation.baseline, graph, limit=_DIVERGENCES_MAX)
        if value.line not in [one.origin for one in left]:
            explained.append(value)
    return explained
