"""The list of what was trained, selected, calibrated and tested on. Its SHA-256 identifies the data in cache keys."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compress.tasks.protocol import SplitName
from compress.tasks.splits import Sample
from edge_runtime.files import write_atomically

MANIFEST_VERSION = 1


@dataclass(frozen=True)
class Manifest:
    """`samples[i]` is the sample with id `i`. `prepared` says how samples are turned into inputs (JSON-able)."""

    task: str
    seed: int
    labels: tuple[str, ...]
    prepared: Mapping[str, Any]
    samples: tuple[Sample, ...]
    splits: tuple[SplitName, ...]
    skipped: Mapping[SplitName, tuple[str, ...]]

    def to_json(self) -> bytes:
        """Canonical JSON, one line a sample: `[name, SHA-256 of the content, label, split]`.

        Holds no path and no time, so that equal data has equal bytes on every machine.
        """
        head = {
            "version": MANIFEST_VERSION,
            "task": self.task,
            "seed": self.seed,
            "labels": self.labels,
            "prepared": dict(self.prepared),
            "skipped": {split: list(names) for split, names in self.skipped.items() if names},
            "duplicates": duplicates(self.samples, self.splits),
        }
        rows = (
            json.dumps([sample.name, sample.digest, self.labels[sample.label], split], ensure_ascii=False)
            for sample, split in zip(self.samples, self.splits, strict=True)
        )
        text = (
            json.dumps(head, sort_keys=True, ensure_ascii=False)[:-1] + ', "samples": [\n' + ",\n".join(rows) + "\n]}\n"
        )
        return text.encode("utf-8", "surrogateescape")


def duplicates(samples: Sequence[Sample], splits: Sequence[SplitName]) -> dict[str, int]:
    """How many contents two splits share, by `test/train` and so on. Only splits that the source names can share."""
    where: dict[str, set[str]] = defaultdict(set)
    for sample, split in zip(samples, splits, strict=True):
        where[sample.digest].add(split)
    shared: dict[str, int] = defaultdict(int)
    for names in where.values():
        if len(names) > 1:
            shared["/".join(sorted(names))] += 1
    return dict(sorted(shared.items()))


def write_manifest(manifest: Manifest, folder: Path) -> tuple[Path, str]:
    """Writes `<digest>.json` into `folder` unless it is there, and returns its path and its SHA-256."""
    content = manifest.to_json()
    digest = hashlib.sha256(content).hexdigest()
    path = folder / f"{digest}.json"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)
    return path, digest
