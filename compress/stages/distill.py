"""Trains a student on the outputs of a teacher and on the labels (Hinton et al. 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from compress.distillation.settings import DistillationSettings
from compress.errors import StageError
from compress.models.variant import TorchVariant, Variant
from compress.recipe.model_reference import ModelReference
from compress.recipe.types import InputFile, Text
from compress.stages.protocol import StageContext, StageSettings
from compress.training.settings import TrainingSettings

if TYPE_CHECKING:
    from compress.models.network import Network


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
        from compress.distillation.objective import distillation_objective
        from compress.distillation.teacher import open_teacher
        from compress.distillation.teacher_outputs import TeacherOutputs
        from compress.models.network import check_contract, save_variant
        from compress.training.loop import train

        task, data = context.task, context.data
        contract = task.contract(data)
        teacher = open_teacher(
            context.variants[settings.teacher],
            task,
            data,
            settings.evaluation_batch_size,
            context.device,
            context.progress,
        )
        student = _student(parents, settings, context)
        check_contract(student.module, contract)
        outputs = TeacherOutputs(
            teacher,
            data,
            settings,
            seed=context.seed,
            device=context.device,
            folder=context.shared / "teacher-outputs",
            keep=settings.keep_outputs,
        )
        result = train(
            student.module,
            task,
            data,
            settings,
            seed=context.seed,
            device=context.device,
            work=context.work / "student",
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
        variant = save_variant(
            student,
            name=context.names[0],
            directory=context.output,
            contract=contract,
            lineage=_lineage(parents, settings),
            validation=result.validation,
            notes=notes,
        )
        return (variant,)


def _student(parents: Sequence[Variant], settings: DistillSettings, context: StageContext) -> Network:
    from compress.models.network import new_network, parent_network

    if settings.model is not None:
        arguments = context.task.model_arguments(context.data)
        return new_network(settings.model, arguments, seed=context.seed, weights=settings.weights)
    (parent,) = parents
    if not isinstance(parent, TorchVariant):
        raise StageError(f"only a torch model can be a student, '{parent.name}' is none")
    return parent_network(parent)


def _lineage(parents: Sequence[Variant], settings: DistillSettings) -> tuple[str, ...]:
    """Where the student comes from; a new one comes from its teacher alone."""
    if settings.model is not None:
        return (settings.teacher,)
    (parent,) = parents
    return (*parent.lineage, parent.name)


STAGE = DistillStage()
