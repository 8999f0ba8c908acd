"""Manifests are read and written by compiled code, and by fastavro where there is none."""

import pytest

from icectl.files import compiled


@pytest.fixture(params=["compiled", "fastavro"])
def end(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Every test that uses it runs through both ends."""
    if request.param == "fastavro":
        monkeypatch.setattr(compiled, "loops", lambda: None)
    end: str = request.param
    return end
