"""Trains a network from scratch, or from weights, and starts a recipe with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict, Field

from compress.models.variant import TorchVariant, Variant
from compress.recipe.model_reference import ModelReference
from compress.recipe.types import InputFile
from compress.stages.protocol import StageContext, StageSettings
from compress.training.settings import TrainingSettings


class TrainSettings(StageSettings, TrainingSettings):
    """The network, and all keys of training."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    model: ModelReference = Field(description="the network: a model source with its keys, or package.module:function")
    weights: InputFile | None = Field(
        None, description="safetensors or weights-only file to start from; default: drawn from the seed"
    )


class TrainStage:
    """No parent in, one torch variant out, named after the stage."""

    name: ClassVar[str] = "train"
    Settings: type[StageSettings] = TrainSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "nothing"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "torch"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow")

    def result_names(self, stage_id: str, parents: Sequence[str], settings: TrainSettings) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: TrainSettings) -> tuple[str, ...]:
        return ()

    def run(
        self, parents: Sequence[Variant], settings: TrainSettings, context: StageContext
    ) -> tuple[TorchVariant, ...]:
        """Raises StageError when the network does not fit the data, a `freeze` pattern matches nothing, or the loss is
        no longer finite."""
        from compress.models.network import check_contract, new_network, save_variant
        from compress.training.loop import train

        task, data = context.task, context.data
        contract = task.contract(data)
        network = new_network(settings.model, task.model_arguments(data), seed=context.seed, weights=settings.weights)
        check_contract(network.module, contract)
        result = train(
            network.module,
            task,
            data,
            settings,
            seed=context.seed,
            device=context.device,
            work=context.work,
            progress=context.progress,
        )
        notes: dict[str, Any] = {
            **result.notes,
            "steps": result.steps,
            "seconds": round(result.seconds, 3),
            "history": [asdict(record) for record in result.history],
        }
        variant = save_variant(
            network,
            name=context.names[0],
            directory=context.output,
            contract=contract,
            lineage=(),
            validation=result.validation,
            notes=notes,
        )
        return (variant,)


STAGE = TrainStage()
