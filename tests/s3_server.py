"""A server of the S3 protocol as a real process: moto's, which stands in for S3 and for what is compatible with it."""

import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

if TYPE_CHECKING:
    from tests.hosts import Host

_SECRET = "a secret of the tests " + uuid4().hex


class S3Server:
    """Can be killed and started again on its port. Its objects are in its memory: `start` puts back what it had.

    With a `host`, it is there that it listens.
    """

    def __init__(self, host: "Host | None" = None) -> None:
        # Here and not above: most tests need none of it.
        import boto3
        from botocore.config import Config

        self._address = "127.0.0.1" if host is None else host.address
        self._program = [sys.executable] if host is None else [host.program(Path(sys.executable))]
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None
        self._kept: dict[str, dict[str, bytes]] = {}  # of a server that was killed, by buckets
        self.client: Any = boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id="tests",
            aws_secret_access_key=_SECRET,
            region_name="us-east-1",
            config=Config(retries={"total_max_attempts": 1}),
        )

    @property
    def url(self) -> str:
        return f"http://{self._address}:{self._port}"

    @property
    def environment(self) -> dict[str, str]:
        return {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    def start(self) -> None:
        from botocore.exceptions import BotoCoreError

        if self._process is not None:
            return
        program = [*self._program, "-m", "moto.server", "-H", self._address, "-p", str(self._port)]
        self._process = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1200):
            try:
                self.client.list_buckets()
                break
            except BotoCoreError:
                sleep(0.1)
        for name, objects in self._kept.items():
            self.client.create_bucket(Bucket=name)
            for key, data in objects.items():
                self.client.put_object(Bucket=name, Key=key, Body=data)
        self._kept = {}

    def kill(self) -> None:
        """Kill it as a machine that loses power."""
        assert self._process is not None
        buckets = [one["Name"] for one in self.client.list_buckets()["Buckets"]]
        self._kept = {name: Bucket(self, name).objects() for name in buckets}
        self._process.kill()
        self._process.wait()
        self._process = None

    def pause(self) -> None:
        """Let it take connections, and answer none."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def create_bucket(self) -> "Bucket":
        name = uuid4().hex
        self.client.create_bucket(Bucket=name)
        return Bucket(self, name)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@dataclass(frozen=True)
class Bucket:
    server: S3Server
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}/files"

    def objects(self) -> dict[str, bytes]:
        pages = self.server.client.get_paginator("list_objects_v2").paginate(Bucket=self.name)
        keys = [one["Key"] for page in pages for one in page.get("Contents", [])]
        return {key: self.get(key) for key in keys}

    def blobs(self) -> dict[str, bytes]:
        """The blobs' bytes, by digests."""
        folder = "files/sha256/"
        found = {key.removeprefix(folder): data for key, data in self.objects().items() if key.startswith(folder)}
        return {f"sha256:{name.replace('/', '')}": data for name, data in found.items()}

    def get(self, key: str) -> bytes:
        return bytes(self.server.client.get_object(Bucket=self.name, Key=key)["Body"].read())

    def change(self, digest: str, data: bytes) -> None:
        """Put other bytes in the blob's place."""
        self.server.client.put_object(Bucket=self.name, Key=key_of(digest), Body=data)

    def flip(self, digest: str) -> None:
        """Flip a bit of the blob."""
        data = bytearray(self.get(key_of(digest)))
        data[len(data) // 2] ^= 1
        self.change(digest, bytes(data))

    def remove(self, digest: str) -> None:
        self.server.client.delete_object(Bucket=self.name, Key=key_of(digest))

    def uploads(self) -> list[str]:
        """The keys of uploads in parts that are neither complete nor aborted."""
        found = self.server.client.list_multipart_uploads(Bucket=self.name)
        return [one["Key"] for one in found.get("Uploads", [])]


def key_of(digest: str) -> str:
    name = digest.removeprefix("sha256:")
    return f"files/sha256/{name[:2]}/{name[2:]}"
