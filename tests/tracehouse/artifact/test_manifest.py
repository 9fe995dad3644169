"""An artifact's manifest, and what reading it again keeps."""

from itertools import combinations
from typing import Any

import pytest

from tests.conftest import make_artifact
from tracehouse.artifact.manifest import Artifact
from tracehouse.contract.contract import Contract, MethodContract
from tracehouse.contract.structure import Argument, DictNode, FixedLeaf, TupleNode


def taking(value: dict[str, Any]) -> Artifact:
    mapping = DictNode(mapping={key: FixedLeaf(fixed=item) for key, item in value.items()})
    arguments = [Argument(name="sizes", structure=mapping)]
    method = MethodContract(arguments=arguments, inputs=[], outputs=[], returns=TupleNode(tuple=[]))
    return make_artifact(contract=Contract(methods={"forward": method}))


@pytest.mark.parametrize("value", [{"tokens": 1, "mask": 1.0, "a": True, "b": -0.0}, {"b": [1, {"z": 1.0, "a": 1}]}])
def test_a_manifest_keeps_the_order_of_dicts_and_the_kinds_of_numbers(value: dict[str, Any]) -> None:
    kept = Artifact.model_validate_json(taking(value).manifest())
    (argument,) = kept.contract.method("forward").arguments

    assert isinstance(argument.structure, DictNode)
    assert repr({key: leaf.model_dump()["fixed"] for key, leaf in argument.structure.mapping.items()}) == repr(value)


def test_equal_artifacts_have_one_digest_and_those_that_answer_otherwise_another_one() -> None:
    values: list[dict[str, Any]] = [{"b": 1, "a": 2}, {"a": 2, "b": 1}, {"b": 1.0, "a": 2}, {"b": True, "a": 2}]

    assert all(taking(value).digest == taking(dict(value)).digest for value in values)
    assert all(taking(one).digest != taking(other).digest for one, other in combinations(values, 2))
