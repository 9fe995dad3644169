"""The program error: the error that a program reports when it fails, by whose fault it is."""

import traceback

from service.sandbox.channel import MalformedFrame
from tracehouse.eager.error_translation import is_out_of_memory, out_of_memory_error, stub_used_error
from tracehouse.eager.stubbed_packages import StubUsed
from tracehouse.errors import LimitExceeded, ModelExited, ModelRaised, ServiceError, TracerLost
from tracehouse.introspection import user_lines


def to_service_error(error: BaseException) -> ServiceError:
    """Return the error to report for what ended this program.

    Errors of submitted code were turned into a TraceError where it was called; whatever else it raised is its fault.
    """
    match error:
        case ServiceError():
            return error
        case StubUsed():
            return stub_used_error(error)
        case SystemExit():
            return ModelExited(
                f"the model code called sys.exit({user_lines.error_text(error)})", **user_lines.error_facts(error)
            )
        case RecursionError():
            return ModelRaised("what the model code gave nests too deeply", **user_lines.error_facts(error))
        case MalformedFrame():  # what is sent from here is well-formed, but may be too large
            return LimitExceeded(f"the artifact is too large: {error}", limit="result")
        case Exception():
            if is_out_of_memory(error):
                return out_of_memory_error(error)
            traceback.print_exception(error)
            return TracerLost(f"the tracer failed: {type(error).__name__}", **user_lines.error_facts(error))
    return ModelExited(f"the model code raised {type(error).__name__}", **user_lines.error_facts(error))
