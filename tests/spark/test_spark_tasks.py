"""Tasks on Spark: answers arrive once, errors as what they are, and waiting can be ended."""

import json
from typing import Any

import pytest

from tests.conftest import ROOT
from tests.spark.engine import on_spark, skip_without_spark

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark-runs")]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What each kernel came to."""
    skip_without_spark()
    folder = tmp_path_factory.mktemp("attempts")
    done = on_spark(str(ROOT / "tests/peers/spark_tasks.py"), str(folder))
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stderr == ""
    attempts = {path.name for path in folder.glob("*-*")}
    assert attempts == {f"{number}-{attempt}" for number in range(4) for attempt in range(2)}
    return {line.pop("name"): line for line in map(json.loads, done.stdout.splitlines())}


def test_each_task_answers(told):
    assert told["squares"]["answers"] == [["0", 0], ["1", 1], ["2", 4]]
    assert told["doubled cubes"]["answers"] == [["0", 0], ["1", 2], ["2", 16]]


def test_a_task_that_is_tried_again_counts_once(told):
    assert told["second attempts"]["answers"] == [0, 1, 2, 3]
    assert told["ends"]["answers"] == ["0", "1", "2", "3"]


def test_where_tasks_have_copies_nothing_goes_on_behind_an_answer(told):
    assert told["settled"]["answers"] == [2, True]


def test_answers_are_read_without_unpickling_them(told):
    assert told["not unpickled"]["answers"] == [[2, 5], [[0, 0, 2], [1, 1]]]


def test_an_error_of_icectl_arrives_as_itself(told):
    assert (
        told["denied"]
        == told["denied each"]
        == {
            "error": "StorageError",
            "message": "cannot list s3://b: denied",
            "hint": "ask for the right to",
        }
    )
    assert told["denied deal"] == {
        "error": "StorageError",
        "message": "cannot read s3://b/3: denied",
        "hint": "ask",
    }


def test_other_errors_are_told_in_one_line(told):
    assert told["wrong"]["error"] == told["dies"]["error"] == "EngineError"
    assert told["wrong"]["message"].startswith("Spark failed: KeyError: 'number ")
    assert "Python worker exited unexpectedly" in told["dies"]["message"]
    assert "\n" not in told["dies"]["message"]


def test_a_session_that_does_not_start_says_why(told):
    assert told["nowhere"]["error"] == "EngineError"
    assert "Spark does not start: " in told["nowhere"]["message"]
    assert "local[x]" in told["nowhere"]["message"]


def test_waiting_ends_at_the_time_limit_and_on_an_interrupt(told):
    assert told["late"]["error"] == "Incomplete"
    assert told["interrupted"]["error"] == "KeyboardInterrupt"
    assert told["stopped"]["answers"] == [True, True]
