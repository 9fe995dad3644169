"""The protocol's routes about one model: its metadata, its configuration, its readiness and its statistics."""

from fastapi import APIRouter

from service.api.context import AppContext, ContextDep
from service.api.http.access import ACCESS_RESPONSES
from service.api.oip.metadata import ModelConfig, ModelMetadata, method_of
from service.api.oip.model_ref import MODEL, MODEL_ERRORS, MODEL_VERSION, Default, Versioned
from service.api.oip.statistics import ModelStatistics, StatisticsReply
from service.api.problems import problem_responses
from service.serving.inference import ServedModel
from tracehouse.frozen import Frozen

router = APIRouter(tags=["Open Inference Protocol"], responses={**ACCESS_RESPONSES, **problem_responses(*MODEL_ERRORS)})


class ModelReady(Frozen):
    """The model can be asked."""

    name: str
    ready: bool = True


@router.get(MODEL, summary="Describe a model's inputs and outputs")
async def model_metadata(served: Default) -> ModelMetadata:
    """Returns the inputs and outputs of `forward`, or of the model's first method if it has no `forward`.

    A dim is -1 only where the contract takes several sizes; `GET /models/{name}` leads to the contract, which says
    which.
    """
    return metadata_of(served)


@router.get(MODEL_VERSION, summary="Describe a version's inputs and outputs")
async def version_metadata(served: Versioned) -> ModelMetadata:
    """Does what `GET /v2/models/{name}` does, for one version."""
    return metadata_of(served)


@router.get(f"{MODEL}/config", summary="Describe a model as Triton's configuration does")
async def model_config(served: Default) -> ModelConfig:
    """Has what Triton's clients read of it."""
    return ModelConfig.of(metadata_of(served))


@router.get(f"{MODEL_VERSION}/config", summary="Describe a version as Triton's configuration does")
async def version_config(served: Versioned) -> ModelConfig:
    """Does what `GET /v2/models/{name}/config` does, for one version."""
    return ModelConfig.of(metadata_of(served))


@router.get(f"{MODEL}/ready", summary="Check that a model can be asked")
async def model_ready(served: Default) -> ModelReady:
    """A model that is registered can be asked: the first request starts its process."""
    return ModelReady(name=served.name)


@router.get(f"{MODEL_VERSION}/ready", summary="Check that a version can be asked")
async def version_ready(served: Versioned) -> ModelReady:
    """Does what `GET /v2/models/{name}/ready` does, for one version."""
    return ModelReady(name=served.name)


@router.get(f"{MODEL}/stats", summary="Count what a model was asked")
async def model_statistics(context: ContextDep, served: Default) -> StatisticsReply:
    """Counts since the service started, of the version that answers."""
    return statistics_of(context, served)


@router.get(f"{MODEL_VERSION}/stats", summary="Count what a version was asked")
async def version_statistics(context: ContextDep, served: Versioned) -> StatisticsReply:
    """Does what `GET /v2/models/{name}/stats` does, for one version."""
    return statistics_of(context, served)


def metadata_of(served: ServedModel) -> ModelMetadata:
    """Describe `forward`, or the model's first method."""
    return ModelMetadata.of(served, method_of(served.all_contracts, None))


def statistics_of(context: AppContext, served: ServedModel) -> StatisticsReply:
    """Count what the version was asked."""
    counted = context.inference.statistics
    found = ModelStatistics.of(counted, served.tenant, served.name, served.version.version)
    return StatisticsReply(model_stats=[found])
