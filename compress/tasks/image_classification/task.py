"""The task `image-classification`: one label an image."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from compress.tasks.image_classification.dataset import ImageDataSet
from compress.tasks.image_classification.prepare import TASK_NAME, prepare
from compress.tasks.image_classification.settings import ImageDataSettings
from compress.tasks.protocol import DataSet, SplitName
from compress.tasks.restricted import unrestricted
from edge_runtime.contract import Contract, ImagePreprocess, InputContract, OutputContract

if TYPE_CHECKING:
    from torch import Tensor, nn


class ImageClassification:
    """Outputs are logits (B, classes); targets are class indices (B,). The metric is accuracy."""

    name = TASK_NAME
    metric = "accuracy"
    DataSettings: type[Any] = ImageDataSettings

    def prepare(self, settings: Any, seed: int, cache: Path) -> DataSet:
        """See `prepare.prepare`."""
        return prepare(settings, seed, cache)

    def contract(self, data: DataSet) -> Contract:
        spec = _spec(data)
        return Contract(
            task=self.name,
            inputs=(
                InputContract("image", (1, spec.channels, spec.height, spec.width), "float32", "NCHW", preprocess=spec),
            ),
            outputs=(OutputContract("logits", (1, len(data.labels)), "float32", "logits"),),
            labels=data.labels,
        )

    def model_arguments(self, data: DataSet) -> dict[str, Any]:
        spec = _spec(data)
        return {"num_classes": len(data.labels), "in_channels": spec.channels, "image_size": spec.height}

    def loss(self, outputs: Any, targets: Any, label_smoothing: float) -> Tensor:
        """Cross-entropy, mean over the batch, in float32 at least."""
        from torch.nn import functional

        return functional.cross_entropy(_logits(outputs), targets, label_smoothing=label_smoothing)

    def evaluate(
        self, model: nn.Module, data: DataSet, split: SplitName, batch_size: int, device: str
    ) -> dict[str, float]:
        """Accuracy over the whole split, in inference mode. The modes of all modules are restored."""
        import torch

        training = {module: module.training for module in model.modules()}
        model.eval()
        right = total = 0
        try:
            with torch.inference_mode():
                for batch in data.evaluation_batches(split, batch_size):
                    predicted = model(batch.inputs.to(device)).argmax(1)
                    right += int((predicted == batch.targets.to(device)).sum())
                    total += len(batch.targets)
        finally:
            for module, mode in training.items():
                module.training = mode
        return {self.metric: right / total}

    def distillation_loss(self, student: Any, teacher: Any, temperature: float) -> Tensor:
        """Kullback-Leibler divergence of softened outputs times temperature squared (Hinton et al. 2015)."""
        from torch.nn import functional

        soft_student = functional.log_softmax(_logits(student) / temperature, dim=1)
        soft_teacher = functional.log_softmax(_logits(teacher) / temperature, dim=1)
        divergence = functional.kl_div(soft_student, soft_teacher, reduction="batchmean", log_target=True)
        return divergence * temperature**2


def _logits(outputs: Tensor) -> Tensor:
    """Half precision is too coarse for a sum of exponentials."""
    return outputs.float() if outputs.element_size() < 4 else outputs


def _spec(data: DataSet) -> ImagePreprocess:
    images = unrestricted(data)
    if not isinstance(images, ImageDataSet):
        raise TypeError(f"expected a data set of {TASK_NAME}, got {type(images).__name__}")
    return images.spec


TASK = ImageClassification()
