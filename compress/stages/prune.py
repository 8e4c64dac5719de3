"""Removes channels of a network by its dependency graph, and trains it to recover."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from compress.errors import StageError
from compress.models.variant import TorchVariant, Variant
from compress.pruning.settings import PruneKeys
from compress.stages.protocol import StageContext, StageSettings


class PruneSettings(StageSettings, PruneKeys):
    """How much goes, which channels go first, and how the network recovers."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class PruneStage:
    """One torch parent in, one torch variant out, named after the stage."""

    name: ClassVar[str] = "prune"
    Settings: type[StageSettings] = PruneSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "each"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "torch"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow", "safetensors", "torch-pruning")

    def result_names(self, stage_id: str, parents: Sequence[str], settings: PruneSettings) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: PruneSettings) -> tuple[str, ...]:
        return ()

    def run(
        self, parents: Sequence[Variant], settings: PruneSettings, context: StageContext
    ) -> tuple[TorchVariant, ...]:
        """Raises StageError when a protected path matches nothing, `reduce` is out of reach (saying how much can be
        cut), or the cut network does not equal the masked one."""
        from compress.models.network import parent_network, save_variant
        from compress.pruning.steps import Surroundings, prune

        (parent,) = parents
        if not isinstance(parent, TorchVariant):
            raise StageError(f"only torch models can be pruned, '{parent.name}' is none")
        around = Surroundings(
            task=context.task,
            data=context.data,
            multiple=settings.channel_multiple or context.target.channel_multiple,
            seed=context.seed,
            device=context.device,
            work=context.work,
            shared=context.shared,
            progress=context.progress,
        )
        network, phases = prune(parent_network(parent), parent, settings, around)
        last = phases[-1]
        validation = last["training"]["validation"] if "training" in last else last["validation_after_cut"]
        variant = save_variant(
            network,
            name=context.names[0],
            directory=context.output,
            contract=parent.contract,
            lineage=(*parent.lineage, parent.name),
            validation=validation,
            notes=_notes(parent, phases, around.multiple),
        )
        return (variant,)


def _notes(parent: TorchVariant, phases: list[dict[str, Any]], multiple: int) -> dict[str, Any]:
    after = phases[-1]["plan"]["after"]
    return {
        "channel_multiple": multiple,
        "reduced": {
            "parameters": 1 - after["parameters"] / parent.parameters,
            "macs": 1 - after["macs"] / parent.macs,
        },
        "reached": phases[-1]["plan"]["reached"],
        "phases": phases,
    }


STAGE = PruneStage()
