"""Errors cross to other processes and stay what they are."""

import pickle

import pytest

from icectl.errors import CorruptTable, EngineError, Refused, SelfCheckFailed


@pytest.mark.parametrize(
    "error",
    [
        EngineError("it failed"),
        Refused("too much", hint="less", id="too-much"),
        CorruptTable("no such thing", rule="R-012"),
        SelfCheckFailed("a file is wrong", rule="R-069"),
    ],
)
def test_an_error_survives_the_way_to_another_process(error):
    found = pickle.loads(pickle.dumps(error))
    assert type(found) is type(error)
    assert (str(found), vars(found)) == (str(error), vars(error))
