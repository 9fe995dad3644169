"""Says what the first method of its contract is called."""

import json
import os
import struct
import time
from collections.abc import Callable
from typing import Any

READY = {"kind": "ready", "resident_bytes": 0}
OUTPUT = ["output", "FP32", [2]]


def main(channel: Any, files: list[int]) -> None:
    load, _ = channel.receive()
    lie = next(iter(load["contract"]["methods"]))
    if lie != "answers_unasked":
        channel.send(READY)
        channel.receive()
    LIES[lie](channel)
    time.sleep(60)


def write(channel: Any, data: bytes) -> None:
    """Past all that the channel would refuse to send."""
    os.set_blocking(channel._socket.fileno(), True)
    os.write(channel._socket.fileno(), data)


def frame(header: bytes, declared_body: int = 0, body: bytes = b"") -> Callable[[Any], None]:
    return lambda channel: write(channel, struct.pack("<IQ", len(header), declared_body) + header + body)


def answered(*outputs: Any, body: bytes = bytes(8), **others: Any) -> Callable[[Any], None]:
    return lambda channel: channel.send({"kind": "answer", "outputs": list(outputs), **others}, body)


def failed(**failure: Any) -> Callable[[Any], None]:
    return lambda channel: channel.send({"kind": "failed", "failure": failure})


LIES: dict[str, Callable[[Any], None]] = {
    "answers_unasked": answered(OUTPUT),
    "answers_several": lambda channel: channel.send({"kind": "answers", "outputs": [OUTPUT]}, bytes(8)),
    "is_ready_again": lambda channel: channel.send(READY),
    "no_json": frame(b"\xff\xfe{}"),
    "no_object": frame(b"[1]"),
    "nests_deeply": frame(b"[" * 500_000),
    "declares_too_much": frame(json.dumps({"kind": "answer", "outputs": []}).encode(), 2**60),
    "header_without_end": lambda channel: write(channel, struct.pack("<IQ", 2**31, 0)),
    "unknown_kind": lambda channel: channel.send({"kind": "traced"}),
    "too_few_bytes": answered(OUTPUT, body=bytes(4)),
    "too_many_bytes": answered(OUTPUT, body=bytes(12)),
    "another_name": answered(["input", "FP32", [2]]),
    "another_datatype": answered(["output", "INT32", [2]]),
    "one_more": answered(OUTPUT, OUTPUT, body=bytes(16)),
    "none": answered(body=b""),
    "no_outputs": lambda channel: channel.send({"kind": "answer"}),
    "one_member_more": answered(OUTPUT, seed=1),
    "an_object_for_an_output": answered({"name": "output", "datatype": "FP32", "shape": [2]}),
    "one_item_more": answered([*OUTPUT, 1]),
    "immense_shape": answered(["output", "FP32", [2**48] * 32]),
    "too_many_dims": answered(["output", "FP32", [1] * 32 + [2]]),
    "an_immense_dim": answered(["output", "FP32", [2**49, 0, 2]], body=b""),
    "negative_shape": answered(["output", "FP32", [-2]]),
    "negative_dims": answered(["output", "FP32", [-2, -1]]),
    "true_for_a_dim": answered(["output", "FP32", [True, 2]]),
    "a_fraction_for_a_dim": answered(["output", "FP32", [2.0]]),
    "a_text_for_a_shape": answered(["output", "FP32", "2"]),
    "closes": lambda channel: channel.close(),
    "too_long_a_failure": failed(slug="graph-raised", detail="x" * 100_000),
    "facts_that_clash": failed(slug="graph-raised", detail="says so", facts={"detail": 1, "self": 2}),
    "no_such_slug": failed(slug="service-error", detail="says so", facts={"status": 200}),
}
