"""Start refusals: what keeps a process of the service from starting, told in one line."""

from collections.abc import Iterator
from contextlib import contextmanager

from service.cli.usage_errors import refuse
from service.sandbox.torch_probe import NoGpu


@contextmanager
def tell_what_hinders_a_start() -> Iterator[None]:
    """Print the reason and exit with 2 where a process cannot start as it is set up."""
    # These import SQLAlchemy, for which no other command waits.
    from service.domain.errors import StorageUnavailable
    from service.signing.signing_keys import SigningKeyUnusable
    from service.storage.database import describe_fault
    from service.storage.object_store import BlobUrlUnusable
    from service.telemetry import TelemetryUnusable

    try:
        yield
    except NoGpu as error:
        refuse(str(error))
    except SigningKeyUnusable as error:
        refuse(f"Artifacts cannot be signed: {error}.")
    except (TelemetryUnusable, BlobUrlUnusable) as error:
        refuse(f"{error}.")
    except StorageUnavailable as error:
        refuse(f"The database that DATABASE_URL names cannot be used: {describe_fault(error)}.")
