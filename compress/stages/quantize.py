"""Trains a network with fake quantization, so that its INT8 files keep their accuracy (Jacob et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import ConfigDict

from compress.errors import RequirementNotMet, StageError
from compress.models.variant import TorchVariant, Variant
from compress.quantization.settings import QuantizeKeys
from compress.stages.protocol import StageContext, StageSettings


class QuantizeSettings(StageSettings, QuantizeKeys):
    """How the network is trained, how ranges are found, and what the result has to beat."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class QuantizeStage:
    """One torch parent in, one torch variant out, named after the stage. Its `int8` files carry the learned scales."""

    name: ClassVar[str] = "quantize"
    Settings: type[StageSettings] = QuantizeSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "each"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "torch"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow", "safetensors")

    def result_names(self, stage_id: str, parents: Sequence[str], settings: QuantizeSettings) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: QuantizeSettings) -> tuple[str, ...]:
        return ()

    def run(
        self, parents: Sequence[Variant], settings: QuantizeSettings, context: StageContext
    ) -> tuple[TorchVariant, ...]:
        """Raises StageError when the network cannot be traced or the loss is no longer finite, and RequirementNotMet
        when `require` is not met."""
        from compress.models.network import parent_network, save_variant
        from compress.quantization.steps import Surroundings, quantize

        (parent,) = parents
        if not isinstance(parent, TorchVariant):
            raise StageError(f"only torch models can be trained for quantization, '{parent.name}' is none")
        around = Surroundings(
            task=context.task,
            data=context.data,
            target=context.target,
            seed=context.seed,
            device=context.device,
            work=context.work,
            shared=context.shared,
            progress=context.progress,
        )
        outcome = quantize(parent_network(parent), parent, settings, around)
        gain = outcome.gain
        if settings.require == "better_than_ptq" and gain.verdict == "no gain":
            raise RequirementNotMet(
                f"no gain: validation {gain.metric} is {gain.qat:.4f} after training with fake quantization and "
                f"{gain.ptq:.4f} without training, and `require: better_than_ptq` asks for more"
            )
        variant = save_variant(
            outcome.network,
            name=context.names[0],
            directory=context.output,
            contract=parent.contract,
            lineage=(*parent.lineage, parent.name),
            validation=outcome.validation,
            notes=outcome.notes,
        )
        return (variant,)


STAGE = QuantizeStage()
