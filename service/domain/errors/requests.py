"""Errors of requests: the body, the headers or the members cannot be taken as they are."""

from tracehouse.errors import CallerError, InvalidRequest


class MalformedRequest(CallerError):
    """The request's body cannot be read"""


class MalformedJson(MalformedRequest):
    """The body is not JSON

    Send strict JSON in UTF-8: no comments, no NaN, no trailing commas.
    """


class MalformedMultipart(MalformedRequest):
    """The body is not well-formed multipart/form-data

    Send one part `request` with the JSON, and a part `files` for each file.
    """


class UploadTruncated(MalformedRequest):
    """The upload ended before its last part did

    Send it again, all of it.
    """


class MalformedHeader(MalformedRequest):
    """A header's value cannot be read

    Write the header as its description in the API documentation says.
    """


class FileNotUploaded(InvalidRequest):
    """The request refers to a file that was not uploaded

    Send the file as a part `files` whose file name is the one in the request.
    """


class FileNotUsed(InvalidRequest):
    """A file was uploaded that the request does not refer to

    Name the file in the request, or leave it out.
    """


class InvalidFileName(InvalidRequest):
    """A file's name is not a plain name

    Use letters, digits, `.`, `_` and `-`, and no slashes.
    """


class InvalidName(InvalidRequest):
    """A name does not follow the grammar of names

    Write `name`, `name@alias` or `name:version`, of letters, digits, `.`, `_` and `-`.
    """


class InvalidCursor(InvalidRequest):
    """The cursor is not one that this list gave out

    Use the `next_cursor` of the page before, unchanged, or begin without one.
    """


class IdempotencyKeyReused(InvalidRequest):
    """The Idempotency-Key was used before with another request

    Use a new key for a new request.
    """


class PayloadTooLarge(CallerError):
    """The request is larger than this service takes

    Send less, large tensors as files, or raise the limit where the service is started.
    """


class UnsupportedMediaType(CallerError):
    """The body's content type is not one that this route takes

    Set `Content-Type` to one that is supported, and send the body unencoded.
    """


class Conflict(CallerError):
    """The state of things forbids this"""


class TraceRequestEnded(Conflict):
    """The trace request has already ended

    There is nothing left to cancel; submit it again if it is to run again.
    """


class VersionAliased(Conflict):
    """An alias points at this version

    Move or delete the alias first.
    """


class PreconditionFailed(CallerError):
    """Somebody else changed it first"""


class AliasMoved(PreconditionFailed):
    """The alias is not where If-Match says it is

    Read the alias again, and send its present ETag as `If-Match`.
    """


class PreconditionRequired(CallerError):
    """Say which state you mean to change"""


class IfMatchRequired(PreconditionRequired):
    """Moving an alias needs If-Match

    Send the ETag that the alias has now as `If-Match`, or `*` to move it from wherever it is.
    """
