"""Errors of pyarrow as those of this program."""

import pyarrow as pa
import pytest

from icectl.errors import CorruptTable, Refused, Unsupported
from icectl.files.arrow_failures import reading_data_file


@pytest.mark.parametrize(
    ("raised", "expected", "message"),
    [
        (pa.ArrowNotImplementedError("LZO."), Unsupported, "the X file can't be read: LZO"),
        (pa.ArrowCapacityError("2 GiB"), Unsupported, "the X file can't be read: 2 GiB"),
        (OSError("Not yet implemented: y"), Unsupported, None),
        (pa.ArrowInvalid("bad\n/src/x.cc:1"), CorruptTable, "the X file is damaged: bad (R-099)"),
        (pa.ArrowIndexError("far"), CorruptTable, None),
        (OSError("Couldn't deserialize thrift"), CorruptTable, None),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "no"), CorruptTable, None),
        (OverflowError("large"), CorruptTable, None),
        (OSError(5, "Input/output error"), OSError, None),
        (FileNotFoundError("gone"), FileNotFoundError, None),
        (Refused("no"), Refused, "no"),
        (KeyError("bug"), KeyError, None),
    ],
)
def test_errors_are_translated_by_what_they_say(raised, expected, message):
    with pytest.raises(expected) as caught, reading_data_file("X"):
        raise raised
    assert type(caught.value) is expected
    assert message is None or str(caught.value) == message
