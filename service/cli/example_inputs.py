"""Example inputs as a shell writes them.

1x3x224x224              a random FP32 tensor
ids=2x8:INT64@0..1000    a named one, its datatype (torch's int64 will do), and the range it is drawn from
n=scalar:INT64@1..5      a random tensor of no dimensions
x=inputs.npz#x           a tensor in a file: .safetensors, .npz or .pt; the key may be left out
scale=0.25, flag=true    what is no tensor: a number with a dot or an exponent, true, false, null
n=int:3, kind="mean"     an integer, since 3 alone is a shape; a string, whose quotes the shell must let through
"""

import re
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import typer

from service.cli.existing_file import existing_file
from service.cli.given_once import add_once
from tracehouse.tensors.tensor import Datatype

_NAMED = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<value>.+)")
_FILE = re.compile(r"(?P<path>.+\.(?:safetensors|npz|pt))(?:#(?P<key>.+))?")
_FLOAT = re.compile(r"-?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?")
_INTEGER = re.compile(r"int:(-?\d{1,18})")  # torch's have 64 bits
_STRING = re.compile(r"\"(.*)\"|'(.*)'", re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}
_LIST_ITEM = re.compile(r"(?:\"[^\"]*\"|'[^']*'|[^,])+")
_NUMBER = r"-?\d+(?:\.\d+)?"
_RANDOM = re.compile(
    rf"(?P<shape>scalar|\d+(?:x\d+)*)(?::(?P<datatype>[A-Za-z]+\d*))?(?:@(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER}))?"
)


@dataclass
class Uploads:
    """Files by the names that they are uploaded under: their own names, unless two have the same."""

    files: dict[str, Path] = field(default_factory=dict)

    def add(self, path: Path) -> str:
        """Return the name under which the request refers to the file."""
        for name, uploaded in self.files.items():
            if uploaded == path:
                return name
        name = path.name if path.name not in self.files else f"{len(self.files)}-{path.name}"
        self.files[name] = path
        return name


@dataclass
class ShellInputs:
    """The arguments that `--input` gives, as a trace request takes them."""

    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: list[str], seed: int, uploads: Uploads) -> "ShellInputs":
        """Parse each text as one input. Raises typer.BadParameter."""
        inputs = cls()
        for number, text in enumerate(texts):
            named = _NAMED.fullmatch(text)
            if named is None:
                raise typer.BadParameter(f"{text!r} is not an input; write 1x3x224x224 or ids=2x8:INT64@0..1000")
            value = _value(named["value"], seed + number, uploads)
            if named["name"]:
                add_once(inputs.kwargs, named["name"], value, "the input")
            else:
                inputs.args.append(value)
        return inputs

    @classmethod
    def parse_list(cls, text: str, seed: int, uploads: Uploads) -> "ShellInputs":
        """Parse several inputs between commas. Raises typer.BadParameter."""
        return cls.parse(_LIST_ITEM.findall(text), seed, uploads)


def _value(text: str, seed: int, uploads: Uploads) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if integer := _INTEGER.fullmatch(text):
        return int(integer[1])
    if _FLOAT.fullmatch(text) and isfinite(number := float(text)):
        return number
    if string := _STRING.fullmatch(text):
        return string[1] or string[2] or ""
    return _tensor(text, seed, uploads)


def _tensor(text: str, seed: int, uploads: Uploads) -> dict[str, Any]:
    if file := _FILE.fullmatch(text):
        name = uploads.add(existing_file(Path(file["path"])))
        return {"file": name, "key": file["key"]} if file["key"] else {"file": name}
    random_tensor = _RANDOM.fullmatch(text)
    if random_tensor is None:
        raise typer.BadParameter(
            f"{text!r} is neither a shape such as 1x3x224x224 or 2x8:INT64@0..1000, nor a file that ends in "
            ".safetensors, .npz or .pt, nor a plain value: 0.5, int:3, true, false, null, or a string in quotes"
        )
    shape = [] if random_tensor["shape"] == "scalar" else [int(size) for size in random_tensor["shape"].split("x")]
    random: dict[str, Any] = {"seed": seed}
    if random_tensor["low"] is not None:
        random |= {"low": float(random_tensor["low"]), "high": float(random_tensor["high"])}
    return {"datatype": _datatype(random_tensor["datatype"] or "FP32"), "shape": shape, "random": random}


def _datatype(name: str) -> str:
    """Return the protocol's name of a datatype, which may have torch's: int64, float32."""
    for datatype in Datatype:
        if name.lower() in (datatype.value.lower(), datatype.dtype_name):
            return datatype.value
    raise typer.BadParameter(f"there is no datatype {name}; there are {', '.join(Datatype)}")
