"""Trains a student on a teacher's outputs: the parent variant, or a new network (Hinton, Vinyals, Dean 2015)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from compress.errors import StageError
from compress.models.variant import TorchVariant, Variant
from compress.recipe.model_reference import ModelReference
from compress.recipe.types import Boolean, Fraction, InputFile, PositiveFloat, Text
from compress.stages.protocol import StageContext, StageSettings
from compress.training.settings import TrainingSettings

if TYPE_CHECKING:
    from compress.models.network import Network


class DistillSettings(StageSettings, TrainingSettings):
    """The teacher, how much it weighs, the student, and all keys of training."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    teacher: Text = Field(description="name of the torch variant to learn from")
    temperature: PositiveFloat = Field(4.0, description="softens the outputs of teacher and student")
    alpha: Fraction = Field(0.7, description="weight of the teacher's outputs; the labels get the rest")
    model: ModelReference | None = Field(None, description="a new student; default: the parent variant")
    weights: InputFile | None = Field(None, description="file that a new student's weights are read from")
    keep_outputs: Boolean = Field(
        True, description="keep the teacher's outputs by sample and augmentation, for later epochs and runs"
    )

    @model_validator(mode="after")
    def _weights_need_a_new_student(self) -> Self:
        if self.weights is not None and self.model is None:
            raise ValueError("weights are for a new student: name it under `model`, or leave `weights` out")
        return self


class DistillStage:
    """One torch variant in, its distilled student out, named after the stage."""

    name: ClassVar[str] = "distill"
    Settings: type[StageSettings] = DistillSettings
    takes: ClassVar[Literal["nothing", "each", "all"]] = "each"
    parents: ClassVar[Literal["torch", "file"]] = "torch"
    gives: ClassVar[Literal["torch", "file", "proof"]] = "torch"
    measures: ClassVar[bool] = False
    packages: ClassVar[tuple[str, ...]] = ("torch", "torchvision", "numpy", "pillow")

    def result_names(self, stage_id: str, parents: Sequence[str], settings: DistillSettings) -> tuple[str, ...]:
        return (stage_id,)

    def references(self, settings: DistillSettings) -> tuple[str, ...]:
        return (settings.teacher,)

    def run(
        self, parents: Sequence[Variant], settings: DistillSettings, context: StageContext
    ) -> tuple[TorchVariant, ...]:
        """Raises StageError when teacher, student and data do not belong together, or the loss is no longer finite."""
        from compress.distillation.objective import distillation_objective
        from compress.distillation.teacher import prepare_teacher
        from compress.models.network import check_contract, save_variant
        from compress.training.loop import train

        task, data = context.task, context.data
        teacher = prepare_teacher(
            context.variants[settings.teacher],
            task,
            data,
            folder=context.shared,
            device=context.device,
            progress=context.progress,
            keep=settings.keep_outputs,
        )
        student = _student(parents, settings, context)
        contract = task.contract(data)
        check_contract(student.module, contract)
        objective = distillation_objective(
            task,
            teacher.outputs,
            temperature=settings.temperature,
            alpha=settings.alpha,
            label_smoothing=settings.label_smoothing,
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
            objective=objective,
        )
        notes: dict[str, Any] = {
            **result.notes,
            "teacher": {"name": teacher.name, task.metric: teacher.score},
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
        raise StageError(f"{context.stage_id}: expected a torch model as the student, got {parent.name}")
    return parent_network(parent)


def _lineage(parents: Sequence[Variant], settings: DistillSettings) -> tuple[str, ...]:
    """Where the student comes from; a new one comes from its teacher alone."""
    if settings.model is not None:
        return (settings.teacher,)
    (parent,) = parents
    return (*parent.lineage, parent.name)


STAGE = DistillStage()
