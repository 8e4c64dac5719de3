"""Trains a student on the outputs of a teacher and on the labels (Hinton et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from compress.distillation.settings import DistillationSettings
from compress.errors import StageError
from compress.models.variant import TorchVariant, Variant
from compress.recipe.model_reference import ModelReference
from compress.recipe.types import InputFile, Text
from compress.stages.protocol import StageContext, StageSettings
from compress.training.settings import TrainingSettings


class DistillSettings(StageSettings, TrainingSettings, DistillationSettings):
    """The teacher, the student, and all keys of training."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    teacher: Text = Field(description="name of the variant that teaches")
    model: ModelReference | None = Field(
        None, description="a new student; default: the parent variant goes on learning"
    )
    weights: InputFile | None = Field(None, description="weights that the new student starts from")

    @model_validator(mode="after")
    def _weights_belong_to_a_model(self) -> Self:
        if self.weights is not None and self.model is None:
            raise ValueError("`weights` are those of a new student: name it under `model`")
        return self


class DistillStage:
    """One torch parent in, one torch variant out, named after the stage."""

    name: ClassVar[str] = "distill"
    Settings: type[StageSettings] = DistillSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "each"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "torch"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow", "safetensors")

    def result_names(self, stage_id: str, parents: Sequence[str], settings: DistillSettings) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: DistillSettings) -> tuple[str, ...]:
        return (settings.teacher,)

    def run(
        self, parents: Sequence[Variant], settings: DistillSettings, context: StageContext
    ) -> tuple[TorchVariant, ...]:
        """Raises StageError when the teacher is a file, teacher or student do not fit the data, or the loss is no
        longer finite."""
        from compress.distillation.teacher import TeacherOutputs, distillation_objective, open_teacher
        from compress.models.network import check_contract, new_network, parent_network, save_variant
        from compress.training.loop import train

        task, data, (parent,) = context.task, context.data, parents
        contract = task.contract(data)
        variant = context.variants[settings.teacher]
        if not isinstance(variant, TorchVariant) or not isinstance(parent, TorchVariant):
            raise StageError(f"the teacher '{settings.teacher}' is no torch model; name the variant it was made from")
        if settings.model is not None:
            network = new_network(
                settings.model, task.model_arguments(data), seed=context.seed, weights=settings.weights
            )
            check_contract(network.module, contract)
        else:
            network = parent_network(parent)
        teacher = open_teacher(variant, task, data, settings.evaluation_batch_size, context.device, context.progress)
        outputs = TeacherOutputs(teacher, data, settings, context.seed, context.device, context.shared / "teacher")
        result = train(
            network.module,
            task,
            data,
            settings,
            seed=context.seed,
            device=context.device,
            work=context.work,
            progress=context.progress,
            objective=distillation_objective(task, outputs, settings, settings.label_smoothing),
        )
        notes: dict[str, Any] = {
            **result.notes,
            "teacher": {"name": teacher.name, "validation": teacher.validation},
            "steps": result.steps,
            "seconds": round(result.seconds, 3),
            "history": [asdict(record) for record in result.history],
        }
        student = save_variant(
            network,
            name=context.names[0],
            directory=context.output,
            contract=contract,
            lineage=(*parent.lineage, parent.name),
            validation=result.validation,
            notes=notes,
        )
        return (student,)


STAGE = DistillStage()
