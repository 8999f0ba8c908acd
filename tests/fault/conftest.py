"""What the fault tests share: processes of their own, which can be killed."""

from collections.abc import Iterator

import pytest

from tests.fault.steps import Processes


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    with Processes() as running:
        yield running
