"""The messages of gRPC: their code is what the .proto makes, and they are those of the official clients.

`make proto` writes the code anew.
"""

from pathlib import Path
from typing import Any

import pytest
import tritonclient.grpc.service_pb2 as official
from google.protobuf.descriptor import Descriptor, EnumDescriptor

from service.api.grpc import open_inference_pb2 as ours
from tests.service.api.open_inference import PROTO, generate


def test_the_code_is_what_the_proto_makes(tmp_path: Path) -> None:
    for made in generate(tmp_path):
        assert made.read_text() == PROTO.with_name(made.name).read_text(), "if the change is meant: make proto"


def fields(message: Descriptor) -> dict[str, Any]:
    return {
        field.name: (
            field.number,
            field.type,
            field.is_repeated,
            field.message_type and field.message_type.full_name,
            field.enum_type and field.enum_type.full_name,
        )
        for field in message.fields
    }


def messages_of(file: Any) -> dict[str, Descriptor]:
    return {message.full_name: message for top in file.message_types_by_name.values() for message in within(top)}


def within(message: Descriptor) -> list[Descriptor]:
    return [message, *(deeper for nested in message.nested_types for deeper in within(nested))]


OURS = messages_of(ours.DESCRIPTOR)
OFFICIAL = messages_of(official.DESCRIPTOR) | {
    name: message for file in official.DESCRIPTOR.dependencies for name, message in messages_of(file).items()
}


@pytest.mark.parametrize("name", OURS)
def test_a_message_has_the_numbers_and_types_of_the_official_one(name: str) -> None:
    assert fields(OURS[name]).items() <= fields(OFFICIAL[name]).items()


def test_the_enum_and_the_methods_are_the_official_ones() -> None:
    def values(enum: EnumDescriptor) -> dict[str, int]:
        return {value.name: value.number for value in enum.values}

    (config,) = official.DESCRIPTOR.dependencies
    assert values(ours.DESCRIPTOR.enum_types_by_name["DataType"]) == values(config.enum_types_by_name["DataType"])

    known = official.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods_by_name
    for method in ours.DESCRIPTOR.services_by_name["GRPCInferenceService"].methods:
        assert method.input_type.full_name == known[method.name].input_type.full_name
        assert method.output_type.full_name == known[method.name].output_type.full_name
