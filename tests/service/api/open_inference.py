"""Writes the code of the gRPC messages from their .proto: `make proto`."""

import tempfile
from pathlib import Path

from grpc_tools import protoc

from service.api import grpc

PROTO = Path(grpc.__file__).with_name("open_inference.proto")
# A pool of its own: a process that has the messages of an official client as well could not have two by one name.
_POOL, _POOL_OF_ITS_OWN = "_descriptor_pool.Default()", "_descriptor_pool.DescriptorPool()"


def generate(into: Path) -> list[Path]:
    """Write the code of the messages, and its types."""
    done = protoc.main(["", f"-I{PROTO.parent}", f"--python_out={into}", f"--pyi_out={into}", PROTO.name])
    assert done == 0, "protoc refused the .proto"
    code, types = into / "open_inference_pb2.py", into / "open_inference_pb2.pyi"
    code.write_text(code.read_text().replace(_POOL, _POOL_OF_ITS_OWN))
    return [code, types]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        for path in generate(Path(directory)):
            PROTO.with_name(path.name).write_text(path.read_text())
