"""What holds for every page: files that it names exist, links lead somewhere, nothing speaks of one machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, PAGES, README, ROOT, prose, read

_PATH = re.compile(r"`((?:compress|export|tune|edge_runtime|recipes|benchmarks|docs|tests)/[\w./*-]*)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_OTHER_SCHEMES = re.compile(r"\w+://")
_MACHINE = re.compile(r"(?<![\w.])/(?:work|tmp|home|root|mnt|opt|usr|var)\b")


def anchors(page: str) -> set[str]:
    """The anchors of a page's headings, as they are made from their text."""
    titles = re.findall(r"^#{1,6} (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", [*PAGES, README])
def test_every_file_and_folder_that_a_page_names_exists(page: str) -> None:
    named = set(_PATH.findall(prose(page)))
    written = {path for path in named if "<" not in path}
    missing = sorted(path for path in written if not (ROOT / path).exists())
    assert missing == []


@pytest.mark.parametrize("page", [*PAGES, README])
def test_every_link_leads_to_a_page_and_a_heading_of_it(page: str) -> None:
    for link in _LINK.findall(prose(page)):
        assert not _OTHER_SCHEMES.match(link), f"{link}: pages stand on their own"
        target, _, anchor = link.partition("#")
        other = Path(page).parent / target if target else Path(page)
        assert (DOCS / other).exists(), link
        assert not anchor or anchor in anchors(str(other)), link


@pytest.mark.parametrize("page", [*PAGES, README])
def test_no_page_names_a_folder_of_one_machine_or_a_host(page: str) -> None:
    text = read(page)
    assert _MACHINE.findall(text) == []
    assert re.findall(r"\w+://\S+", text) == []


@pytest.mark.parametrize("page", PAGES)
def test_lines_end_where_those_of_the_code_end(page: str) -> None:
    too_long = [line for line in prose(page).splitlines() if len(line) > 120 and not line.startswith("|")]
    assert too_long == []


def test_every_room_and_every_page_can_be_found() -> None:
    """A room that the design does not name, or a page that no other one links to, would not be found."""
    rooms = {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / "compress").glob("*/__init__.py")}
    rooms |= {"export", "tune", "edge_runtime"}
    assert {room for room in rooms if f"`{room}/`" not in read("design.md")} == set()
    linked = {link.partition("#")[0] for page in PAGES for link in _LINK.findall(prose(page))}
    assert set(PAGES) - {"guide.md", "design.md"} <= linked
