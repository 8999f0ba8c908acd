"""Two of icectl that maintain a table of any kind of catalog while PyIceberg appends to it."""

from pathlib import Path

import pytest

from tests.catalogs.races import race_with_appends
from tests.catalogs.server import Server

ROUNDS = [3, pytest.param(200, marks=pytest.mark.full)]


@pytest.mark.parametrize("rounds", ROUNDS)
def test_two_of_icectl_and_pyiceberg_lose_nothing(
    request: pytest.FixtureRequest, server: Server, rounds: int, tmp_path: Path
) -> None:
    if request.node.callspec.params["server"].startswith("hive-4"):
        pytest.skip("PyIceberg's client fails on Hive 4")
    race_with_appends(server, rounds, tmp_path)
