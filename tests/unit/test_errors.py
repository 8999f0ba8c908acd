"""Errors cross to other processes and stay what they are."""

import pickle
import re
from pathlib import Path

import pytest

import icectl
from icectl.errors import CorruptTable, EngineError, MissingFile, Refused, SelfCheckFailed
from icectl.table.reading import decode_file


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


def test_an_error_has_its_file_and_its_rule_beside_its_words():
    def damaged() -> None:
        raise CorruptTable("it is short", rule="R-008", hint="look")

    with pytest.raises(CorruptTable) as caught:
        decode_file("/t/a", lambda: decode_file("/t/a", damaged))
    error = caught.value
    assert (error.message, error.what, error.reason, error.rule, error.location, error.hint) == (
        "`/t/a`: it is short (R-008)", "`/t/a`: it is short", "it is short", "R-008", "/t/a",
        "look",
    )  # fmt: skip
    with pytest.raises(MissingFile) as missing:
        decode_file("/t/a", lambda: (_ for _ in ()).throw(MissingFile("/t/a")))
    assert missing.value.message.count("/t/a") == 1


FOREIGN_WORDS = {
    "catalog/glue.py", "catalog/rest/commits.py", "cli/help.py", "rows/check_data_file.py",
    "rows/spark_classic.py",
}  # fmt: skip
"""Modules that read words of AWS, servers, typer, Arrow and Spark, which have them nowhere else."""


def test_no_message_of_icectl_is_read_as_data():
    package = Path(icectl.__file__).parent
    read = re.compile(
        r"\.message\.(?:remove|starts|ends|part|rpart|split|replace|lower|find)|in \w+\.message\b"
        r"|re\.\w+\(.*\.message|_[A-Z]+\.\w+\(\w+\.message"
    )
    found = {
        str(path.relative_to(package))
        for path in package.rglob("*.py")
        if read.search(path.read_text())
    }
    assert found == FOREIGN_WORDS
