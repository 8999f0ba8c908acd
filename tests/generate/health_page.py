"""The picture of the health page, `docs/health.png`: tables as streams leave them, in a browser.

    python -m tests.generate.health_page

It needs Chromium on the PATH, so it is not part of `tests.generate.docs`.
"""

import contextlib
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from icectl.cli import app
from icectl.format.sort import SortField, SortOrder
from icectl.format.transforms import parse_transform
from tests.builders.expiry import Clock
from tests.builders.table_builder import TableBuilder

PICTURE = Path(__file__).parents[2] / "docs" / "health.png"
SIZE = "1040,1460"
HOUR_MS = 3_600_000
START_MS = 1_793_000_000_000
NOW_MS = START_MS + 24 * 24 * HOUR_MS


BY_ID = SortOrder(1, (SortField((1,), parse_transform("identity"), "asc", "nulls-first"),))


def _stream(
    folder: Path, name: str, commits: int, *, rows: int = 40, partitioning: str = "none",
    order: SortOrder | None = None,
) -> TableBuilder:  # fmt: skip
    """A table that got a commit every so often, until now."""
    interval_ms = (NOW_MS - START_MS) // (commits + 3)
    table = TableBuilder(
        folder / name, 2, partitioning, start_ms=START_MS, commit_interval_ms=interval_ms
    )
    if order:
        orders = (*table.metadata.sort_orders, order)
        table.metadata = replace(
            table.metadata, sort_orders=orders, default_sort_order_id=order.order_id
        )
    for at in range(commits):
        table.append(range(rows * at, rows * at + rows * (1 + at % 3)))
    return table


def _tables(folder: Path) -> list[TableBuilder]:
    orders = _stream(folder, "orders", 90, partitioning="bucket")
    orders.delete_rows(range(0, 2_000, 3))
    clicks = _stream(folder, "clicks", 60, order=BY_ID)
    returns = _stream(folder, "returns", 16, partitioning="identity")
    customers = _stream(folder, "customers", 1, rows=3_000)
    return [orders, clicks, returns, customers]


def main() -> None:
    """Build the tables, write their page and take the picture of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "sales"
        tables = [f"sales/{table.directory.name}" for table in _tables(folder)]
        page = Path(name) / "health.html"
        with contextlib.chdir(name):
            code = app.main(["inspect", *tables, "health", "--html", str(page)], env=Clock(NOW_MS))
        if code:
            raise SystemExit(code)
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--window-size={SIZE}", f"--screenshot={PICTURE}", page.as_uri()],
            check=True,
            capture_output=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
