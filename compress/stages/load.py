"""Starts a recipe from somebody's trained network: measures it, trains nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from compress.models.variant import TorchVariant, Variant
from compress.recipe.model_reference import FUNCTION_SOURCE, ModelReference
from compress.recipe.types import InputFile, PositiveInt
from compress.stages.protocol import StageContext, StageSettings

_BRING_WEIGHTS = ("variant", FUNCTION_SOURCE)


class LoadSettings(StageSettings):
    model: ModelReference = Field(
        description="the network: package.module:function, a model source with its keys, or a saved variant "
        "({source: variant, directory: ...})"
    )
    weights: InputFile | None = Field(
        None, description="safetensors, or a file of torch.save that holds tensors and no code"
    )
    evaluation_batch_size: PositiveInt = Field(256, description="samples of one step of validation")

    @model_validator(mode="after")
    def _has_weights(self) -> Self:
        source = self.model.source
        if self.weights is None and source in ("torchvision", "residual"):
            raise ValueError(f"networks of '{source}' come without trained weights: name a file under `weights`")
        return self


class LoadStage:
    """No parent in, one torch variant out, named after the stage."""

    name: ClassVar[str] = "load"
    Settings: type[StageSettings] = LoadSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "nothing"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "torch"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow", "safetensors")

    def result_names(self, stage_id: str, parents: Sequence[str], settings: LoadSettings) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: LoadSettings) -> tuple[str, ...]:
        return ()

    def run(
        self, parents: Sequence[Variant], settings: LoadSettings, context: StageContext
    ) -> tuple[TorchVariant, ...]:
        """Raises StageError when the weights do not fit the network, or the network does not fit the data."""
        from compress.models.network import check_contract, new_network, save_variant

        task, data = context.task, context.data
        contract = task.contract(data)
        network = new_network(settings.model, task.model_arguments(data), seed=context.seed, weights=settings.weights)
        check_contract(network.module, contract)
        network.module.eval().to(context.device)
        validation = task.evaluate(network.module, data, "validation", settings.evaluation_batch_size, context.device)
        network.module.cpu()
        score = ", ".join(f"{name} {value:.2%}" for name, value in validation.items())
        context.progress(f"loaded: validation {score}", **validation)
        variant = save_variant(
            network,
            name=context.names[0],
            directory=context.output,
            contract=contract,
            lineage=(),
            validation=validation,
        )
        return (variant,)


STAGE = LoadStage()
