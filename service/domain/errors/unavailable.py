"""Errors of the service itself: it cannot do its work now."""

from tracehouse.errors import ServiceError


class BlobMissing(ServiceError):
    """The bytes of this digest are missing"""


class ContentDamaged(ServiceError):
    """What is stored under this digest is not what was stored

    The disk may be failing. Send uploaded files again, which replaces them; for an artifact, trace the model again with
    `force`.
    """


class Unavailable(ServiceError):
    """The service cannot take this request now"""


class QueueFull(Unavailable):
    """Too many trace requests are waiting"""


class PoolSaturated(Unavailable):
    """Too many inference requests are waiting"""


class PoolMemoryShort(Unavailable):
    """There is no memory for this model's process now

    Ask again when `Retry-After` says: there is room then, if no other request needs it. The operator sets the memory of
    all processes with POOL_MEMORY_MIB, of which each tenant has a share.
    """


class FilesInUse(Unavailable):
    """Files are being stored all the time, so none can be removed

    Sweep again when fewer trace requests come and end.
    """


class TooMuchWorkWaits(Unavailable):
    """Too many requests are waiting for their turn

    Send it again after the seconds in `Retry-After`, and fewer at a time.
    """


class ProcessLost(Unavailable):
    """A process of the service ended while it worked on this request

    Send the request again.
    """


class TooMuchArrives(Unavailable):
    """Too many bytes of other bodies are arriving

    Wait for the requests that are being sent, and send this one again.
    """


class TooMuchUnread(Unavailable):
    """Too many bytes of earlier replies are waiting to be read

    Read the replies that were asked for, or close their connections, and send the request again.
    """


class DeviceUnavailable(Unavailable):
    """This service has no such device

    Use `device=cpu`, or start the service with GPU_SLOTS on a machine that has a GPU.
    """


class ShuttingDown(Unavailable):
    """The service is shutting down"""


class StorageUnavailable(Unavailable):
    """The database does not answer"""


class ReleaseTooOld(Unavailable):
    """A newer release wrote this, and the process that answers cannot read it

    Send the request again: during an update, another process may answer. For the operator: update this process.
    """


class FilesUnavailable(Unavailable):
    """The place where files are kept does not answer

    Send the request again after the seconds in `Retry-After`. Trace requests wait until it answers. For the operator:
    `/readyz` says what is wrong, and docs/storage.md what BLOB_URL needs.
    """


class DiskFull(Unavailable):
    """There is too little room on the disk"""


class TooManyOpenFiles(Unavailable):
    """The service has too many files open to open another"""


class SandboxUnavailable(Unavailable):
    """No process for model code could be started"""
