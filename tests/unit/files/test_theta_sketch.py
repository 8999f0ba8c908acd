"""Theta sketches: hashes by another implementation, bytes and estimates by DataSketches' own."""

import struct
from decimal import Decimal
from uuid import UUID

import mmh3
import numpy as np
import pyarrow as pa
import pytest

from icectl.errors import CorruptTable, Unsupported
from icectl.files import compiled, theta_sketch
from icectl.files.theta_sketch import NO_VALUES, SketchBuilder, ThetaSketch, read_sketch, union


@pytest.fixture(params=["compiled", "numpy"])
def loops(request, monkeypatch):
    if request.param == "numpy":
        monkeypatch.setattr(theta_sketch, "loops", lambda: None)
    else:
        assert compiled.loops() is not None


def sketch_of(values: pa.Array) -> ThetaSketch:
    builder = SketchBuilder()
    builder.add(values)
    return builder.sketch()


def hashed(content: bytes) -> int:
    return mmh3.hash64(content, 9001, x64arch=True, signed=False)[0] >> 1


UUIDS = [UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"), UUID(int=1)]
VALUES = {
    "boolean": (pa.array([True, None, False]), [b"\x01", b"\x00"]),
    "int": (pa.array([-1, 7], pa.int32()), [struct.pack("<i", value) for value in (-1, 7)]),
    "long": (pa.array([2**40, -3]), [struct.pack("<q", value) for value in (2**40, -3)]),
    "float": (pa.array([1.5, -0.0], pa.float32()), [struct.pack("<f", x) for x in (1.5, -0.0)]),
    "double": (pa.array([1.5, float("inf")]), [struct.pack("<d", x) for x in (1.5, float("inf"))]),
    "date": (pa.array([19_000], pa.date32()), [struct.pack("<i", 19_000)]),
    "time": (pa.array([5_000_000], pa.time64("us")), [struct.pack("<q", 5_000_000)]),
    "timestamptz": (pa.array([17], pa.timestamp("us", "UTC")), [struct.pack("<q", 17)]),
    "timestamp_ns": (pa.array([18], pa.timestamp("ns")), [struct.pack("<q", 18)]),
    "string": (pa.array(["", "ä" * 20, None, "b"]), ["ä".encode() * 20, b"b"]),
    "binary": (pa.array([b"\x00", b"\xff" * 16]), [b"\x00", b"\xff" * 16]),
    "fixed": (pa.array([b"abc", b"abd"], pa.binary(3)), [b"abc", b"abd"]),
    "decimal": (
        pa.array([Decimal(text) for text in ("1.27", "1.28", "-1.28", "-1.29", "0.00")]),
        [b"\x7f", b"\x00\x80", b"\x80", b"\xff\x7f", b"\x00"],
    ),
    "wide decimal": (
        pa.array([Decimal(2**90)], pa.decimal128(38, 0)), [(2**90).to_bytes(12, "big")],
    ),
    "uuid": (
        pa.ExtensionArray.from_storage(
            pa.uuid(), pa.array([value.bytes for value in UUIDS], pa.binary(16))
        ),
        [value.bytes for value in UUIDS],
    ),
}  # fmt: skip
"""Values of each type, and their bytes by Appendix D of the format (R-091); empty ones are none."""


@pytest.mark.usefixtures("loops")
@pytest.mark.parametrize("kind", VALUES)
def test_r091_values_are_hashed_as_single_values_are_stored(kind):
    values, stored = VALUES[kind]
    assert sketch_of(values).hashes.tolist() == sorted(map(hashed, stored))
    twice = pa.concat_arrays([values.slice(1)] * 2)
    assert sketch_of(values.slice(1)).to_bytes() == sketch_of(twice).to_bytes()


@pytest.mark.usefixtures("loops")
def test_texts_of_every_length_are_hashed():
    texts = [bytes(range(length)) for length in range(1, 60)]
    assert sketch_of(pa.array(texts)).hashes.tolist() == sorted(map(hashed, texts))


def test_types_without_a_sketch_are_refused():
    with pytest.raises(Unsupported):
        sketch_of(pa.array([[1]]))


OF_LIBRARY = bytes.fromhex(
    "02030300001acc93030000000000000015f97dcbbd86a105c397fc1281709d1eba40b3c1da06695d"
)
"""What DataSketches 5.2 for Python stores of the numbers 1, 2 and 3."""


def test_sketches_of_the_library_are_read():
    one, none = "01030300001acc93e0f48bea9983c37c", "01030300001ecc93"
    for stored, values in ((OF_LIBRARY, [3, 1, 2, 1]), (bytes.fromhex(one), [7])):
        assert read_sketch(stored).to_bytes() == sketch_of(pa.array(values)).to_bytes()
    assert read_sketch(bytes.fromhex(none)).estimate == 0


def test_stored_bytes_are_those_of_the_library_beside_its_sampling_ratio():
    stored = sketch_of(pa.array([1, 2, 3])).to_bytes()
    assert stored[:12] + bytes(4) + stored[16:] == OF_LIBRARY
    assert struct.unpack("<f", stored[12:16]) == (1.0,)  # as Java has it
    assert NO_VALUES.to_bytes().hex() == "01030300001ecc93"


def test_estimates_are_those_of_the_library():
    many = sketch_of(pa.array(range(10_000)))
    # DataSketches 5.2 for Python says so of the same bytes
    assert many.estimate == pytest.approx(9897.762845698651, rel=1e-12)
    assert (len(many.hashes), many.is_exact) == (4096, False)
    assert read_sketch(many.to_bytes()).to_bytes() == many.to_bytes()


def test_a_union_is_the_sketch_of_all_values():
    whole = pa.array(np.arange(30_000))
    parts = [sketch_of(whole.slice(start, 12_000)) for start in (0, 9_000, 18_000)]
    assert union(parts).to_bytes() == sketch_of(whole).to_bytes()
    assert union([sketch_of(pa.array([1, 2])), sketch_of(pa.array([2, 3]))]).estimate == 3
    assert union([]).estimate == 0


@pytest.mark.parametrize(
    "content",
    [
        OF_LIBRARY[:5], OF_LIBRARY[:-1], OF_LIBRARY + bytes(8),
        OF_LIBRARY[:16] + OF_LIBRARY[16:24] * 3,
        OF_LIBRARY[:8] + b"\xff" * 4 + OF_LIBRARY[12:], OF_LIBRARY[:-8] + b"\xff" * 8,
        OF_LIBRARY[:-8] + bytes(8), b"\x3f" + OF_LIBRARY[1:], b"\x00" + OF_LIBRARY[1:],
    ],
)  # fmt: skip
def test_r140_damaged_sketches_are_refused(content):
    with pytest.raises(CorruptTable) as raised:
        read_sketch(content)
    assert raised.value.rule == "R-140"


@pytest.mark.parametrize(("at", "value"), [(1, 4), (2, 1), (5, 0x1B), (6, 0)])
def test_other_forms_are_not_supported(at, value):
    with pytest.raises(Unsupported):
        read_sketch(OF_LIBRARY[:at] + bytes([value]) + OF_LIBRARY[at + 1 :])
