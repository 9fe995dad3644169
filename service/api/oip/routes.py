"""All routes of the protocol. The paths of one model come after those that are like them: `/v2/models/stats`."""

from fastapi import APIRouter

from service.api.oip import infer, models, repository, server, unsupported

router = APIRouter()
for _noun in (server, repository, unsupported, infer, models):
    router.include_router(_noun.router)
