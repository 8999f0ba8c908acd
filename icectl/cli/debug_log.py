"""The debug log of `-vv`: what icectl's modules record, on the console."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from icectl.report.console import Console


class _ConsoleHandler(logging.Handler):
    """Debug records on the console, without secrets."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        """Write one record."""
        self._console.debug(f"debug: {record.name}: {record.getMessage()}")


@contextmanager
def debug_log(console: Console) -> Iterator[None]:
    """Show debug records while this lasts, where the console is that verbose."""
    if console.options.verbosity < 2:
        yield
        return
    logger = logging.getLogger("icectl")
    handler = _ConsoleHandler(console)
    before = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
