"""The `model:` key of a stage: which source builds the network, and with which arguments."""

from __future__ import annotations

import json
import re
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, ValidationInfo, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from compress.recipe.nearest import suggestion

FUNCTION_SOURCE = "module:function"
FUNCTION_PATTERN = r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*"


class ModelReference(BaseModel):
    """`{source: torchvision, name: resnet18}`, or short `package.module:function`.

    `source` names a registered model source, `arguments` holds the other keys. While a recipe is loaded, they are
    validated against the source's settings model, which also fills in its defaults; the sources come in by the
    validation context, as `{"model_sources": {name: settings model}}`. Without that context nothing is checked
    beyond the form, so that stored settings can be read back. Dumped, it is the flat form again.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    source: str

    @property
    def arguments(self) -> dict[str, Any]:
        return dict(self.model_extra or {})

    @model_validator(mode="before")
    @classmethod
    def _resolve(cls, value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            value = _from_function(value)
        sources = (info.context or {}).get("model_sources")
        if sources is None or not isinstance(value, dict) or not isinstance(value.get("source"), str):
            return value
        source = value["source"]
        if source not in sources:
            raise _error(f"unknown model source '{source}'{suggestion(source, sources)}", "source", source)
        settings = sources[source]
        given = {key: item for key, item in value.items() if key != "source" or "source" in settings.model_fields}
        # As JSON, strict models take lists for tuples and text for paths.
        text = json.dumps(given, default=str)
        validated = settings.model_validate_json(text, context=info.context).model_dump(mode="json")
        return {"source": source, **{key: item for key, item in validated.items() if key != "source"}}


def _from_function(text: str) -> dict[str, Any]:
    if not re.fullmatch(FUNCTION_PATTERN, text):
        raise PydanticCustomError(
            "model_reference", "expected a function like package.module:function, or a mapping with the key `source`"
        )
    return {"source": FUNCTION_SOURCE, "function": text}


def _error(message: str, key: str, value: Any) -> ValidationError:
    detail = InitErrorDetails(type=PydanticCustomError("model_source", "{m}", {"m": message}), loc=(key,), input=value)
    return ValidationError.from_exception_data("ModelReference", [detail])
