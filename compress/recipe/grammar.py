"""The keys of a recipe that belong to no stage, task or source."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from compress.recipe.types import NonNegativeInt, OneOrMany, Text

NAME_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_-]*"
_NAME = rf"^{NAME_PATTERN}$"
VARIANT_PATTERN = r"[A-Za-z0-9][A-Za-z0-9_.+-]*(/[A-Za-z0-9][A-Za-z0-9_.+-]*)*"


def _is_name(value: Any) -> Any:
    if not isinstance(value, str) or len(value) > 100 or not re.fullmatch(NAME_PATTERN, value):
        raise ValueError("expected a name of letters, digits, - and _ that starts with a letter or digit")
    return value


Name = Annotated[str, Field(pattern=_NAME), BeforeValidator(_is_name)]


class Grammar(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class RecipeGrammar(Grammar):
    """The top of a recipe."""

    recipe: Literal[1] = Field(description="Version of the grammar.")
    name: Name | None = Field(None, description="Name of the run's folder. Default: the file's name.")
    seed: Annotated[NonNegativeInt, Field(lt=2**32)] = Field(
        0, description="Fixes splits, initial weights, order of data."
    )
    task: Text = Field(description="What the model is for.")
    data: dict[str, Any] = Field(description="Where the data comes from: `source`, and the keys of that source.")
    target: Text = Field("host", description="The processor that the files are for. Default: this machine.")
    stages: list[dict[str, Any]] = Field(min_length=1, description="The techniques, in order.")
    gates: list[dict[str, Any]] = Field(default=[], description="Conditions that decide the exit code.")
    reference: Text | None = Field(None, description="Published claims to set the measurements against.")
    tune: dict[str, Any] | None = Field(None, description="A search over settings: `edgepress tune` carries it out.")


class StageGrammar(Grammar):
    """The keys that every entry of `stages` has; the others are the stage's own settings."""

    id: Name = Field(description="Name of the stage, and of its result.")
    use: Text = Field(description="The technique.")
    from_: OneOrMany[Text] | None = Field(
        None, alias="from", description="Stages or variants to work on. Default: the stage before."
    )
    as_: Text | None = Field(
        None,
        alias="as",
        description="Name of the results, with {parent} and {id} replaced. Default: given by the stage.",
    )


class GateGrammar(Grammar):
    """The keys of an entry of `gates` that are no gate."""

    of: OneOrMany[Text] = Field(description="The variant or variants that must meet the conditions.")


STAGE_KEYS = tuple(info.alias or name for name, info in StageGrammar.model_fields.items())
GATE_KEYS = tuple(GateGrammar.model_fields)
