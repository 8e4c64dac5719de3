"""Starts a recipe from somebody's trained model: built, loaded, checked and measured, not trained."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from compress.models.variant import TorchVariant, Variant
from compress.recipe.model_reference import ModelReference
from compress.recipe.types import InputFile, PositiveInt
from compress.stages.protocol import StageContext, StageSettings


class LoadSettings(StageSettings):
    """The network and its trained weights. A saved variant brings its own weights."""

    model: ModelReference = Field(description="the network: a model source with its keys, or package.module:function")
    weights: InputFile | None = Field(
        None, description="safetensors or weights-only file; default: the weights that the model comes with"
    )
    evaluation_batch_size: PositiveInt = Field(256, description="samples of one step of validation")


class LoadStage:
    """No parent in, one torch variant out, named after the stage."""

    name: ClassVar[str] = "load"
    Settings: type[StageSettings] = LoadSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "nothing"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "torch"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow")

    def result_names(self, stage_id: str, parents: Sequence[str], settings: LoadSettings) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: LoadSettings) -> tuple[str, ...]:
        return ()

    def run(
        self, parents: Sequence[Variant], settings: LoadSettings, context: StageContext
    ) -> tuple[TorchVariant, ...]:
        """Raises StageError when weights and network do not belong together, or the network does not fit the data."""
        from compress.models.network import check_contract, new_network, save_variant

        task, data = context.task, context.data
        contract = task.contract(data)
        network = new_network(settings.model, task.model_arguments(data), seed=context.seed, weights=settings.weights)
        check_contract(network.module, contract)
        network.module.eval().to(context.device)
        validation = task.evaluate(network.module, data, "validation", settings.evaluation_batch_size, context.device)
        network.module.cpu()
        context.progress(f"{task.metric} {validation[task.metric]:.4f} on validation")
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
