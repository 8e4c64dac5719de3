"""Where networks come from: the sources that a recipe's `model:` can name.

A source is a settings model and a function from its JSON arguments to a module. Beside its own keys it gets what the
task knows about the data: `num_classes`, `in_channels`, `image_size`. Third parties register a `ModelSource` under
the entry point group `edgepress.model_sources`. Importing this imports no framework.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from compress.errors import EdgepressError, StageError
from compress.models.architecture import BuilderReference
from compress.models.torchvision_names import TORCHVISION_MODELS
from compress.recipe.model_reference import FUNCTION_SOURCE, ModelReference
from compress.recipe.nearest import suggestion
from compress.recipe.types import InputFolder, Listed, PositiveInt

if TYPE_CHECKING:
    from torch import nn

ENTRY_POINTS = "edgepress.model_sources"
VARIANT_SOURCE = "variant"


class SourceSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class TorchvisionSettings(SourceSettings):
    """A classification network of torchvision, with fresh weights: nothing is ever downloaded."""

    name: str = Field(description="The name in torchvision.models, e.g. resnet18.")
    stem: Literal["default", "small"] = Field(
        default="default",
        description="`small` adapts to small images: a first convolution of 3x3 and stride 1, no max pooling after it.",
    )

    @field_validator("name")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in TORCHVISION_MODELS:
            raise ValueError(f"torchvision has no model '{name}'{suggestion(name, TORCHVISION_MODELS)}")
        return name


class ResidualSettings(SourceSettings):
    """Residual networks for small images (He et al. 2016, section 4.2), projection shortcuts; 6 * blocks + 2 layers."""

    blocks: Listed[PositiveInt] = Field(
        default=(3,), description="Blocks in each of the three stages; one number or three. 3: ResNet-20, 9: ResNet-56."
    )
    width: PositiveInt = Field(default=16, description="Channels of the first stage; doubled in each further one.")
    stride: Literal[1, 2] = Field(
        default=1, description="Of the first stage; 2 halves its resolution and costs a quarter of the MACs."
    )

    @field_validator("blocks")
    @classmethod
    def _one_or_three(cls, blocks: tuple[int, ...]) -> tuple[int, ...]:
        if len(blocks) not in (1, 3):
            raise ValueError("expected one number of blocks, or three")
        return blocks


class FunctionSettings(SourceSettings):
    """Any Python function that returns a torch.nn.Module."""

    function: str = Field(
        pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$", description="package.module:function"
    )
    arguments: dict[str, Any] = Field(
        default={},
        description="Passed to the function. num_classes, in_channels and image_size are passed too if it takes them.",
    )


class VariantSettings(SourceSettings):
    """A saved variant: a folder with architecture.json and weights.safetensors, e.g. from an earlier run."""

    directory: InputFolder = Field(description="The folder of the variant.")


@dataclass(frozen=True)
class ModelSource:
    """`build` takes the settings as JSON values plus the task's arguments, and returns a module with fresh weights."""

    Settings: type[BaseModel]
    build: Callable[[Mapping[str, Any]], nn.Module]


def _torchvision(arguments: Mapping[str, Any]) -> nn.Module:
    from compress.models.torchvision_source import build_torchvision

    return build_torchvision(arguments)


def _residual(arguments: Mapping[str, Any]) -> nn.Module:
    from compress.models.residual import residual

    return residual(
        blocks=arguments["blocks"],
        width=arguments["width"],
        stride=arguments["stride"],
        num_classes=arguments.get("num_classes", 10),
        in_channels=arguments.get("in_channels", 3),
    )


def _function(arguments: Mapping[str, Any]) -> nn.Module:
    from torch import nn

    path = arguments["function"]
    function = import_function(path)
    accepted = inspect.signature(function).parameters
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in accepted.values())
    own = dict(arguments.get("arguments") or {})
    for name in own:
        if name not in accepted and not open_ended:
            raise StageError(f"{path} takes no argument '{name}'{suggestion(name, accepted)}")
    offered = {name: value for name, value in arguments.items() if name not in ("function", "arguments")}
    module = function(**{name: value for name, value in offered.items() if name in accepted} | own)
    if not isinstance(module, nn.Module):
        raise StageError(f"{path} returned {type(module).__name__}, expected a torch.nn.Module")
    return module


def _variant(arguments: Mapping[str, Any]) -> nn.Module:
    from compress.models.saved import load_model

    return load_model(arguments["directory"])


MODEL_SOURCES: Mapping[str, ModelSource] = {
    "torchvision": ModelSource(TorchvisionSettings, _torchvision),
    "residual": ModelSource(ResidualSettings, _residual),
    FUNCTION_SOURCE: ModelSource(FunctionSettings, _function),
    VARIANT_SOURCE: ModelSource(VariantSettings, _variant),
}


@functools.cache
def model_sources() -> Mapping[str, ModelSource]:
    """The built-in sources and those of installed packages."""
    found = {point.name: point.load() for point in entry_points(group=ENTRY_POINTS)}
    return {**found, **MODEL_SOURCES}


def builder_reference(model: ModelReference, task_arguments: Mapping[str, Any]) -> BuilderReference:
    """A recipe's `model:` with what the task knows about the data merged in; the recipe's own keys win."""
    own = {name: value for name, value in model.arguments.items() if value is not None}
    merged = {**task_arguments, **own}
    return BuilderReference(model.source, json.loads(json.dumps(merged, default=str)))


def build(reference: BuilderReference) -> nn.Module:
    """A new module, in training mode, with weights drawn from torch's global random state.

    Raises StageError when the source or the network is unknown or its function fails.
    """
    sources = model_sources()
    if reference.source not in sources:
        raise StageError(f"unknown model source '{reference.source}'{suggestion(reference.source, sources)}")
    try:
        return sources[reference.source].build(reference.arguments)
    except EdgepressError:
        raise
    except Exception as error:  # user code may raise anything; its cause belongs in the message
        raise StageError(
            f"building the network ({reference.source}, {json.dumps(reference.arguments)}) failed: "
            f"{type(error).__name__}: {error}"
        ) from error


def import_function(path: str) -> Callable[..., Any]:
    """`package.module:function`. Raises StageError that names what is missing, and the nearest name."""
    module_name, _, name = path.partition(":")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        raise StageError(
            f"cannot import '{module_name}' for {path}: {error}; it is looked for in the recipe's folder and on the "
            "Python path"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        functions = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise StageError(f"module '{module_name}' has no function '{name}'{suggestion(name, functions)}")
    return function


def add_import_folder(folder: str | Path) -> None:
    """Makes functions in `folder` importable here and in processes started from here (converters)."""
    entry = str(Path(folder).resolve())
    if entry not in sys.path:
        sys.path.append(entry)
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if entry not in inherited:
        os.environ["PYTHONPATH"] = os.pathsep.join([*filter(None, inherited), entry])
