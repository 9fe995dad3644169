"""The values of a tensor in a request: JSON data that is packed as a whole, and no single value is validated."""

from typing import Any, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, JsonValue
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


class TensorValues:
    """JSON data, flat or nested, as it was parsed. A list of numbers may have millions of them.

    It is no dataclass, of which `model_dump` would make a dict, number by number: see `json_text` of a trace spec.
    """

    __slots__ = ("data",)

    def __init__(self, data: JsonValue) -> None:
        self.data = data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorValues) and self.data == other.data

    def __repr__(self) -> str:
        return "TensorValues(...)"

    __hash__ = None  # type: ignore[assignment] # as of a list

    @classmethod
    def of(cls, value: Any) -> Self:
        return value if isinstance(value, cls) else cls(value)

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        written = core_schema.plain_serializer_function_ser_schema(lambda values: values.data, when_used="json")
        return core_schema.no_info_plain_validator_function(cls.of, serialization=written)

    @classmethod
    def __get_pydantic_json_schema__(cls, _schema: CoreSchema, _handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {}
