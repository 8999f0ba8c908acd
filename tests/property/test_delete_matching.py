"""Delete matching against a reading of R-111 to R-113 file by file."""

from hypothesis import given
from hypothesis import strategies as st

from icectl.entries import deletes
from icectl.format.manifest import Content, FileFormat
from tests.builders.entry_rows import data, entries, equality, key, named, positions, vector

LOCATIONS = ["a", "b", "c", "d"]
PLACES = st.sampled_from(
    [
        {"spec_id": 0, "partition_key": b""},
        *({"spec_id": spec, "partition_key": key(value)} for spec in (1, 2) for value in "xy"),
    ]
)
NUMBERS = st.integers(1, 4)
DELETES = st.one_of(
    st.builds(lambda place, number: equality("", sequence_number=number, **place), PLACES, NUMBERS),
    st.builds(
        lambda place, number, target: positions(
            "", sequence_number=number, referenced_data_file=target, **place
        ),
        PLACES,
        NUMBERS,
        st.sampled_from([None, *LOCATIONS]),
    ),
    st.builds(
        lambda place, number, target: vector("", target, sequence_number=number, **place),
        PLACES,
        NUMBERS,
        st.sampled_from(LOCATIONS),
    ),
)


def reaches(delete, file) -> bool:
    """Whether a delete applies to a data file when no vector is about."""
    same = all(delete[name] == file[name] for name in ("spec_id", "partition_key"))
    if delete["content"] == Content.EQUALITY_DELETES:
        older = file["sequence_number"] < delete["sequence_number"]
        return older and (same or delete["spec_id"] == 0)
    target = delete["referenced_data_file"]
    old_enough = file["sequence_number"] <= delete["sequence_number"]
    return same and old_enough and target in {None, file["location"]}


def is_vector(delete) -> bool:
    return delete.get("file_format") == FileFormat.PUFFIN


@given(st.lists(st.tuples(PLACES, NUMBERS), max_size=4), st.lists(DELETES, max_size=8))
def test_ranges_say_what_the_rules_say_file_by_file(places, delete_rows):
    files = [
        data(location, sequence_number=number, **place)
        for location, (place, number) in zip(LOCATIONS, places, strict=False)
    ]
    for number, row in enumerate(delete_rows):
        row["location"] = f"delete {number}"
    expected = set()
    for file in files:
        found = [row for row in delete_rows if reaches(row, file)]
        if any(is_vector(row) for row in found):
            found = [
                row for row in found if is_vector(row) or row["content"] == Content.EQUALITY_DELETES
            ]
        expected |= {(file["location"], row["location"]) for row in found}

    matches = deletes.match(entries(*files, *delete_rows), {0})
    names = named(matches.data), named(matches.deletes)
    pairs = deletes.pairs(matches).to_pylist()
    assert {(names[0][p["data_row"]], names[1][p["delete_row"]]) for p in pairs} == expected
    assert len(pairs) == len(expected)
    assert set(named(deletes.dangling(matches))) == set(names[1]) - {name for _, name in expected}
