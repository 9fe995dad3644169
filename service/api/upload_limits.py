"""How much a trace request may have, for clients that look before they send."""

from fastapi import APIRouter
from pydantic import Field

from service.api.context import ContextDep
from service.api.http.access import ACCESS_RESPONSES, MayTrace
from tracehouse.frozen import Frozen
from tracehouse.spec.trace_spec import FILES_MAX

router = APIRouter(tags=["Trace requests"], responses=ACCESS_RESPONSES)


class UploadLimits(Frozen):
    """What `POST /trace` takes from the caller."""

    request_max_bytes: int = Field(description="The largest JSON: the body, or the part `request` beside files.")
    upload_max_bytes: int = Field(description="The largest body with files, all of them together.")
    files_max: int = Field(description="The most files.")


@router.get("/limits", summary="Read how much may be sent")
async def get_limits(context: ContextDep, caller: MayTrace) -> UploadLimits:
    """Returns the limits of the caller's key, or the service's own where those are smaller."""
    return UploadLimits(
        request_max_bytes=caller.upload_max_bytes(context.limits.request_max_bytes),
        upload_max_bytes=caller.upload_max_bytes(context.limits.upload_max_bytes),
        files_max=FILES_MAX,
    )
