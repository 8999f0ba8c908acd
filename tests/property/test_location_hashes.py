"""Hashes of whole columns of locations agree with the loosest key of each."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from icectl.storage.location import loosest_key
from icectl.table.known_locations import KnownLocations, location_hashes

ROOTS = st.sampled_from(
    ["s3://b/", "s3a://b/", "s3://c", "file:///", "file:/", "/", "", "//", "s3://é/", "s3://b//"]
)
PATHS = st.lists(
    st.sampled_from(
        [
            "a", "b", "é", "/", "//", "%", "%2F", "%61", "%C3%A9", "%C3", "%252F", "s3:", ".",
            "..", "/./", "/../", "\0",
        ]
    ),
    max_size=12,
).map("".join)  # fmt: skip
LOCATIONS = st.builds(str.__add__, ROOTS, PATHS)


@given(st.lists(LOCATIONS, max_size=12))
def test_two_locations_have_one_hash_exactly_when_they_have_one_key(column):
    hashes = location_hashes(pa.array(column, pa.string())).tolist()
    by_key = dict(zip(map(loosest_key, column), hashes, strict=True))
    assert [by_key[loosest_key(location)] for location in column] == hashes
    assert len(set(by_key.values())) == len(by_key)


@given(st.lists(LOCATIONS, max_size=8), st.lists(LOCATIONS, max_size=8))
def test_a_location_is_known_exactly_when_its_key_was_added(added, sought):
    known = KnownLocations()
    known.add(pa.array(added, pa.string()))
    keys = set(map(loosest_key, added))
    flags = known.contains(pa.array(sought, pa.string())).to_pylist()
    assert flags == [loosest_key(location) in keys for location in sought]
