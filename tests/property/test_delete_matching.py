"""Delete matching against a reading of R-111 to R-113 file by file."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from icectl.entries import deletes
from icectl.format.manifest import Content, FileFormat
from icectl.table.equality_scopes import DeleteChains
from icectl.table.rewrite_tasks import DeleteFile
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


BY_VALUE = st.builds(
    lambda place, number, ids: equality("", sequence_number=number, equality_ids=ids, **place),
    PLACES,
    NUMBERS,
    st.sampled_from([[1], [2], [1, 2], [2, 1]]),
)


@given(
    st.lists(st.tuples(PLACES, NUMBERS), max_size=4),
    st.lists(st.tuples(BY_VALUE, st.booleans()), max_size=8),
)
def test_deletes_by_value_are_matched_alike_as_entries_and_as_files_of_tasks(places, chosen):
    """The newest of the chosen ones (R-112), and the first of a chain that applies."""
    files = [
        data(location, sequence_number=number, **place)
        for location, (place, number) in zip(LOCATIONS, places, strict=False)
    ]
    delete_rows = [row | {"location": f"{at}"} for at, (row, _) in enumerate(chosen)]
    mask = np.array([is_chosen for _, is_chosen in chosen], np.bool_)
    matches = deletes.match(entries(*files, *delete_rows), {0})
    newest = deletes.newest_among(matches, mask).tolist()
    some = [row for row, is_chosen in zip(delete_rows, mask, strict=True) if is_chosen]
    chains = DeleteChains([_task_file(row) for row in some], {0})
    for file, number in zip(files, newest, strict=True):
        found = [row for row in some if reaches(row, file)]
        assert number == max((row["sequence_number"] for row in found), default=0)
        stated = (file["spec_id"], file["partition_key"], file["sequence_number"])
        applied = [
            delete.location
            for at, first in chains.applying(*stated)
            for delete in chains.chains[at].files[first:]
        ]
        assert sorted(applied) == [row["location"] for row in found]
    for chain in chains.chains:
        assert {tuple(sorted(file.equality_ids)) for file in chain.files} == {chain.equality_ids}


def _task_file(row: dict[str, Any]) -> DeleteFile:
    place = (row["sequence_number"], row["spec_id"], row["partition_key"])
    ids = tuple(row["equality_ids"])
    return DeleteFile(row["location"], FileFormat.PARQUET, 10, 1, *place, equality_ids=ids)
