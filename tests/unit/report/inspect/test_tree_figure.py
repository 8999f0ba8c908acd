"""The figure of a tree: no wider than a window, no text wider than its box."""

import re
from pathlib import Path

import pytest

from tests.builders.table_builder import TableBuilder

LETTER = 13 * 0.602
"""The width of a letter of DejaVu Sans Mono, 1233 of 2048 units, at 13 pixels."""


@pytest.fixture(params=[3, 17])
def page(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    from icectl.cli import app

    table = TableBuilder(tmp_path / "t", partitioning="two")
    for number in range(request.param - 1):
        table.append(range(number * 6, number * 6 + 6))
    table.delete_rows([1, 2, 3])
    place = tmp_path / "tree.html"
    assert app.main(["inspect", str(table.directory), "tree", "--html", str(place), "-q"]) == 0
    return place.read_text()


def boxes(page: str) -> list[tuple[int, int, int, int]]:
    found = re.findall(r'<rect x="(\d+)" y="(\d+)" width="(\d+)" height="(\d+)" rx="4"', page)
    return [(int(x), int(y), int(width), int(height)) for x, y, width, height in found]


def test_a_window_of_a_laptop_shows_the_figure_without_scrolling_sideways(page: str) -> None:
    size = re.search(r'<svg width="(\d+)" height="(\d+)" viewBox="0 0 (\d+) (\d+)"', page)
    assert size is not None
    width, height, *view = map(int, size.groups())
    assert [width, height] == view
    assert width <= 1366 - 2 * 32
    assert height <= 1300


def test_no_two_boxes_overlap(page: str) -> None:
    found = boxes(page)
    for at, (x, y, width, height) in enumerate(found):
        for other_x, other_y, other_width, other_height in found[:at]:
            beside = x >= other_x + other_width or other_x >= x + width
            assert beside or y >= other_y + other_height or other_y >= y + height


def test_texts_stay_in_their_boxes_with_a_wide_font(page: str) -> None:
    lines: dict[tuple[str, str], float] = {}
    pattern = r'<text class="[^"]*" x="(\d+)" y="(\d+)">(?:<title>[^<]*</title>)?([^<]*)</text>'
    after = r'(?:<text text-anchor="end" x="\d+" y="\d+">([^<]*)</text>)?'
    for x, y, text, status in re.findall(pattern + after, page):
        room = 260 - 2 * 8
        told = text.replace("&amp;", "&")
        assert (len(told) + len(status)) * LETTER <= room, (told, status)
        lines[x, y] = len(told) * LETTER
    assert len(lines) > 8


def test_every_box_leads_to_its_part_of_the_list(page: str) -> None:
    targets = set(re.findall(r'<a href="#([^"]+)">\n<rect', page))
    ids = set(re.findall(r'<(?:details|div)[^>]* id="([^"]+)"', page))
    assert targets
    assert targets <= ids
