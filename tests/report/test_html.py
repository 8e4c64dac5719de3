from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from compress.errors import ExitCode
from compress.report.build import ReportInputs, build_report
from compress.report.html import render_chart, render_html
from compress.report.model import Report
from compress.report.proof import MeasuredProof
from tests.report.made_up import recipe


def report_of(chain: MeasuredProof) -> Report:
    return build_report(
        ReportInputs(recipe(), ExitCode.OK, {}, [chain], environment={"note": "<script>alert(1)</script>"})
    )


class _Balanced(HTMLParser):
    """Keeps the open elements, and fails on one that closes another."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_loads_nothing_and_runs_nothing(chain: MeasuredProof) -> None:
    page = render_html(report_of(chain))
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"""(src|href)=|https?://|@import|url\(""", page)


def test_the_page_is_well_formed_and_holds_the_reports_tables(chain: MeasuredProof) -> None:
    page = render_html(report_of(chain))
    parser = _Balanced()
    parser.feed(page)
    assert parser.open == []
    assert page.count("<table>") == 3
    assert "student/tflite-int8" in page


def test_the_chart_draws_every_file_inside_its_frame(chain: MeasuredProof) -> None:
    chart = ElementTree.fromstring(render_chart(report_of(chain)))
    titles = [title.text or "" for title in chart.iter("title")]
    assert sum("tflite" in title for title in titles) == len(chain.measurements.variants)
    width, height = (float(part) for part in chart.attrib["viewBox"].split()[2:])
    for circle in chart.iter("circle"):
        assert 0 <= float(circle.attrib["cx"]) <= width
        assert 0 <= float(circle.attrib["cy"]) <= height


def test_a_report_without_files_has_no_chart() -> None:
    report = build_report(ReportInputs(recipe(reference=None), ExitCode.STAGE_FAILED, {}, error="no data"))
    assert render_chart(report) == ""
    assert "no data" in render_html(report)
