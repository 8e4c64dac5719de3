"""Holds the project's figures to their raw samples: computes `results/<table>.csv` and compares it with what is there.

    python benchmarks/check.py            fails when a row does not follow from its samples, or a target differs
    python benchmarks/check.py --write    writes the tables anew

Every figure of `targets.toml` has a row, shortfalls included; one without samples has an empty `measured`. Missing a
target is reported and is no error of this check.
"""

from __future__ import annotations

import argparse
import csv
import io
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from raw_samples import HERE, Raw, RawSamplesError, Result, compute, read

from edge_runtime.files import write_atomically

COLUMNS = ("figure", "target", "measured", "low", "high", "unit", "engine", "cpu", "n", "seed", "command", "commit")
_TARGET = re.compile(r"(<=|>=) (-?[0-9]+(?:\.[0-9]+)?)")
_INTERVAL_COLUMNS = ("low", "high")
_TOLERANCE = 0.1
"""Ends of a bootstrap interval may differ by this share of its width: numpy may change its random stream."""


class TargetsError(Exception):
    """targets.toml says something that cannot be read."""


@dataclass(frozen=True)
class Target:
    """One figure: `bound` is empty for a figure that is reported without a target."""

    figure: str
    bound: str
    unit: str

    def met(self, measured: float) -> bool | None:
        """Whether a measurement meets the target; None without one."""
        match = _TARGET.fullmatch(self.bound)
        if match is None:
            return None
        return measured <= float(match[2]) if match[1] == "<=" else measured >= float(match[2])


@dataclass(frozen=True)
class Table:
    """A table as it follows from targets and samples, and what there is to say about it."""

    name: str
    rows: tuple[Mapping[str, str], ...]
    unmeasured: tuple[str, ...]
    short: tuple[str, ...]
    problems: tuple[str, ...]


def read_targets(path: Path) -> dict[str, tuple[Target, ...]]:
    """The figures by table, in the file's order. Raises TargetsError for a target of another form."""
    tables: dict[str, tuple[Target, ...]] = {}
    for name, figures in tomllib.loads(path.read_text(encoding="utf-8")).items():
        targets = []
        for figure, entry in figures.items():
            unknown = set(entry) - {"target", "unit", "text"}
            bound = entry.get("target", "")
            if unknown or "unit" not in entry or "text" not in entry:
                raise TargetsError(f"{path}: {name}.{figure} needs `unit` and `text` and may have `target`")
            if bound and not _TARGET.fullmatch(bound):
                raise TargetsError(f"{path}: {name}.{figure}: a target reads `<= x` or `>= x`, got {bound!r}")
            targets.append(Target(figure, bound, entry["unit"]))
        tables[name] = tuple(targets)
    return tables


def build_table(name: str, targets: Sequence[Target], raw_directory: Path) -> Table:
    """Computes every row of a table from the raw samples under `raw_directory`/`name`."""
    rows, unmeasured, short, problems = [], [], [], []
    known = {target.figure for target in targets}
    for path in sorted((raw_directory / name).glob("*.json")):
        if path.stem not in known:
            problems.append(f"{name}: raw samples of {path.stem}, which targets.toml does not name")
    for target in targets:
        path = raw_directory / name / f"{target.figure}.json"
        if not path.exists():
            unmeasured.append(target.figure)
            rows.append(_row(target, None, None))
            continue
        try:
            raw = read(path)
            result = compute(raw)
        except RawSamplesError as error:
            problems.append(f"{name}: {error}")
            continue
        rows.append(_row(target, raw, result))
        if target.met(result.measured) is False:
            short.append(f"{target.figure}: {result.measured:.6g}, target {target.bound}")
    return Table(name, tuple(rows), tuple(unmeasured), tuple(short), tuple(problems))


def render(table: Table) -> str:
    """The table as CSV."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.rows)
    return stream.getvalue()


def differences(table: Table, text: str) -> list[str]:
    """What the CSV `text` says that does not follow from targets and samples, one sentence each."""
    reader = csv.DictReader(io.StringIO(text))
    if tuple(reader.fieldnames or ()) != COLUMNS:
        return [f"{table.name}: the columns are not {','.join(COLUMNS)}"]
    stands = list(reader)
    found = []
    wanted = {row["figure"]: row for row in table.rows}
    if [row["figure"] for row in stands] != list(wanted):
        found.append(f"{table.name}: the figures or their order differ from targets.toml")
    for row in stands:
        expected = wanted.get(row["figure"])
        for column in COLUMNS if expected is not None else ():
            assert expected is not None
            if not _same(column, row, expected):
                source = "targets.toml" if column in ("target", "unit") else "the raw samples"
                found.append(
                    f"{table.name}: {row['figure']}: {column} is {row[column]!r}, "
                    f"and {expected[column]!r} follows from {source}"
                )
    return found


def _same(column: str, row: Mapping[str, str], expected: Mapping[str, str]) -> bool:
    if row[column] == expected[column]:
        return True
    if column not in _INTERVAL_COLUMNS or not expected[column]:
        return False
    try:
        apart = abs(float(row[column]) - float(expected[column]))
    except ValueError:
        return False
    return apart <= _TOLERANCE * (float(expected["high"]) - float(expected["low"]))


def _row(target: Target, raw: Raw | None, result: Result | None) -> Mapping[str, str]:
    row = dict.fromkeys(COLUMNS, "") | {"figure": target.figure, "target": target.bound, "unit": target.unit}
    if raw is None or result is None:
        return row
    return row | {
        "measured": f"{result.measured:.6g}",
        "low": f"{result.interval[0]:.6g}",
        "high": f"{result.interval[1]:.6g}",
        "engine": raw.engine,
        "cpu": raw.cpu,
        "n": str(result.n),
        "seed": str(raw.seed),
        "command": raw.command,
        "commit": raw.commit,
    }


def main(arguments: Sequence[str] | None = None, root: Path = HERE) -> int:
    """Returns 0, or 1 when something does not follow."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--write", action="store_true", help="write the tables anew")
    write = parser.parse_args(arguments).write
    try:
        tables = read_targets(root / "targets.toml")
    except (TargetsError, tomllib.TOMLDecodeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    problems: list[str] = []
    for name, targets in tables.items():
        table = build_table(name, targets, root / "raw")
        problems += table.problems
        path = root / "results" / f"{name}.csv"
        if write and not table.problems:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, render(table).encode("utf-8"))
        elif not write and not path.exists():
            problems.append(f"{name}: {path.name} is missing; write it with --write")
        elif not write:
            problems += differences(table, path.read_text(encoding="utf-8"))
        measured = len(table.rows) - len(table.unmeasured)
        print(f"{name}: {measured} of {len(targets)} figures measured, {len(table.short)} short of their target")
        for figure in table.unmeasured:
            print(f"  not measured: {figure}")
        for line in table.short:
            print(f"  short: {line}")
    known = {f"{name}.csv" for name in tables}
    problems += [f"{path.name} has no table in targets.toml" for path in _tables_there(root) if path.name not in known]
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problems else 0


def _tables_there(root: Path) -> list[Path]:
    return sorted((root / "results").glob("*.csv"))


if __name__ == "__main__":
    sys.exit(main())
