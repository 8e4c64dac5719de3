"""Requests and answers as JSON, for the way to a converter process and back."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from edge_runtime import contract as contracts
from edge_runtime.contract import Contract
from export.request import (
    FORMATS,
    PRECISIONS,
    ConversionAnswer,
    ConversionRequest,
    ConvertedFile,
    Inspection,
    ModuleSource,
    Parity,
    learned_from_json,
)


def request_to_json(request: ConversionRequest) -> str:
    """Sorted keys, so that equal requests give equal text."""
    return _dump(asdict(request) | {"contract": contracts.to_json(request.contract)})


def request_from_json(text: str) -> ConversionRequest:
    """Raises ValueError when the text is no request, ContractError when its contract is none."""
    data = json.loads(text)
    try:
        data["source"] = ModuleSource(**data["source"])
        data["contract"] = contracts.from_json(data["contract"])
        data["precisions"] = tuple(data["precisions"])
        if data.get("learned") is not None:
            data["learned"] = learned_from_json(data["learned"])
        request = ConversionRequest(**data)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a conversion request: {error}") from error
    if request.format not in FORMATS:
        raise ValueError(f"format: expected one of {', '.join(FORMATS)}, got {request.format!r}")
    unknown = [precision for precision in request.precisions if precision not in PRECISIONS]
    if unknown or not request.precisions:
        raise ValueError(f"precisions: expected some of {', '.join(PRECISIONS)}, got {list(request.precisions)}")
    return request


def answer_to_json(answer: ConversionAnswer) -> str:
    """The inverse of `answer_from_json`."""
    files = [asdict(file) | {"contract": contracts.to_json(file.contract)} for file in answer.files]
    return _dump(asdict(answer) | {"files": files})


def answer_from_json(data: Any) -> ConversionAnswer:
    """An answer from parsed JSON. Raises ValueError when it is none."""
    try:
        return ConversionAnswer(
            files=tuple(_file(entry) for entry in data["files"]),
            peak_memory_bytes=data["peak_memory_bytes"],
            seconds=data["seconds"],
            versions=data["versions"],
        )
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a conversion answer: {error}") from error


def _file(data: dict[str, Any]) -> ConvertedFile:
    contract: Contract = contracts.from_json(data["contract"])
    parts = {"contract": contract, "parity": Parity(**data["parity"]), "inspection": Inspection(**data["inspection"])}
    return ConvertedFile(**(data | parts))


def _dump(data: Any) -> str:
    return json.dumps(data, sort_keys=True, ensure_ascii=False, allow_nan=False)
