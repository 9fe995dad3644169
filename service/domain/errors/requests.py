"""Errors of requests: the body, the headers or the members are not valid."""

from tracehouse.errors import CallerError, InvalidRequest


class MalformedRequest(CallerError):
    """The request's body cannot be read"""


class MalformedJson(MalformedRequest):
    """The body is not JSON

    Send strict JSON in UTF-8: no comments, no NaN, no trailing commas, no member twice in one object.
    """


class MalformedMessage(MalformedRequest):
    """The message is not the one that this gRPC method takes

    Send what the method takes by the protocol's .proto, its numbers packed, as current protobuf libraries do.
    """


class MalformedMultipart(MalformedRequest):
    """The body is not well-formed multipart/form-data

    Send one part `request` with the JSON, and a part `files` for each file.
    """


class UploadTruncated(MalformedRequest):
    """The upload ended before its last part did

    Send the whole upload again.
    """


class MalformedHeader(MalformedRequest):
    """A header's value cannot be read

    Write the header as the API documentation describes it.
    """


class FileNotUploaded(InvalidRequest):
    """The request refers to a file that was not uploaded

    Send the file as a part `files` whose file name is the one in the request, or name in `files_of` an earlier trace
    request that has it.
    """


class FileNotUsed(InvalidRequest):
    """A file was uploaded that the request does not refer to

    Name the file in the request, or do not upload it.
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
    """The cursor is not from this list

    Send the `next_cursor` of the page before unchanged, or none for the first page.
    """


class IdempotencyKeyReused(InvalidRequest):
    """The Idempotency-Key was used before with another request

    Use a new key for a new request.
    """


class PayloadTooLarge(CallerError):
    """The request is larger than this service takes

    Send less, upload large tensors as files, or start the service with a larger limit.
    """


class UnsupportedMediaType(CallerError):
    """This route does not take the body's content type

    Set `Content-Type` to a supported one, and send the body without a content encoding.
    """


class PictureNotTaken(UnsupportedMediaType):
    """Nothing says how a picture becomes the model's input

    Send the input's values in another form. For pictures, trace a model of one input again with a picture in
    `check.samples` that says in `image` how it is read and normalised: all samples of the method alike.
    """


class NotAcceptable(CallerError):
    """The reply has none of the forms that `Accept` names

    Name `application/json` in `Accept`, or leave the header out.
    """


class NotSupported(CallerError):
    """This service does not have this part of the protocol

    `GET /v2` lists the extensions that it has.
    """


class Conflict(CallerError):
    """The present state forbids this request"""


class TooManyKeys(Conflict):
    """The tenant has as many API keys as it may

    Revoke one first: `DELETE /keys/{prefix}`.
    """


class TooManyAliases(Conflict):
    """The model has as many aliases as it may

    Delete one first, or move one that there is: `PUT /models/{name}/aliases/{alias}`.
    """


class TooManyPinned(Conflict):
    """The tenant has as many pinned models as it may

    Take the pin of another one away first: `PATCH /models/{name}` with `{"pinned": false}`.
    """


class TooManyWebhooks(Conflict):
    """The tenant has as many webhooks as it may

    Delete one first: `DELETE /webhooks/{id}`.
    """


class WebhookUrlRefused(InvalidRequest):
    """The service does not send webhooks to such an address

    Use `https` and a name that is on the public internet. Whoever runs the service can name other networks in
    WEBHOOK_NETWORKS.
    """


class TraceRequestEnded(Conflict):
    """The trace request has already ended

    Nothing is left to cancel; to run it again, submit it again.
    """


class TraceRequestNotEnded(Conflict):
    """The trace request has not ended

    Cancel it first: `POST /trace/{id}/cancel`.
    """


class TraceRequestHasVersion(Conflict):
    """A model version came from this trace request

    Delete the version first, or the model.
    """


class TraceRequestContinued(Conflict):
    """Another trace request goes on with the check of this one's artifact

    Wait until that one has ended, or cancel it.
    """


class ArtifactWithdrawn(Conflict):
    """A later check found a wrong answer that this artifact promises to be right

    Read what `GET /trace/{id}` says of the later check, and use a version that it left, or trace a changed model.
    """


class ArchiveWithoutModel(Conflict):
    """The artifact came from an uploaded archive, so there is no model to check it with

    Submit the model's source with `POST /trace`.
    """


class SubmissionGone(Conflict):
    """What the artifact was made of is not there any more

    Submit the model, its weights and its inputs again with `POST /trace`.
    """


class ConversionUnknown(Conflict):
    """An earlier release made the artifact, and did not note how

    Trace the model again with `POST /trace` and `force`; the check of that artifact can go on.
    """


class VersionAliased(Conflict):
    """An alias points at this version, or is to be moved back to it

    Move or delete the alias first. To move it, or to set it again without `move_back_after`, ends the moving back.
    """


class NothingToMoveBackTo(Conflict):
    """Nothing else has answered under this name, so that it could not be moved back

    Leave out `move_back_after`, or set the alias to the version that it is to be moved back to first; the default
    version, promote that one first.
    """


class NothingIsChecked(Conflict):
    """This service compares no answers with those of the model, so that nothing would be moved back

    Leave out `move_back_after`, or ask the operator for a `LIVE_CHECK_SHARE` above 0.
    """


class VersionIsDefault(Conflict):
    """This is the model's default version, or the one that it is to be moved back to

    Promote another version first, or delete the model.
    """


class PreconditionFailed(CallerError):
    """Somebody else made a change first"""


class AliasMoved(PreconditionFailed):
    """The alias is not in the state that If-Match names

    Read the alias again and send its current ETag as `If-Match`.
    """


class DefaultVersionMoved(PreconditionFailed):
    """The default version is not the one that the request expects

    Read the model again and send its present default version as `If-Match`, or leave the header out.
    """


class PreconditionRequired(CallerError):
    """The request does not say which state it changes"""


class IfMatchRequired(PreconditionRequired):
    """Moving an alias needs If-Match

    Send the alias's current ETag as `If-Match`, or `*` to move it whatever its state.
    """
