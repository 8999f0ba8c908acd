import pytest

from icectl.entries import deletes, rows
from icectl.format.manifest import Status
from tests.builders.entry_rows import data, entries, equality, key, named, positions, vector

UNPARTITIONED = {0}


def applied(*rows, unpartitioned=UNPARTITIONED) -> set[tuple[str, str]]:
    """Pairs of data file and delete file."""
    matches = deletes.match(entries(*rows), unpartitioned)
    data_names, delete_names = named(matches.data), named(matches.deletes)
    pairs = deletes.pairs(matches).to_pylist()
    return {(data_names[pair["data_row"]], delete_names[pair["delete_row"]]) for pair in pairs}


@pytest.mark.parametrize(("sequence_number", "applies"), [(2, True), (3, True), (4, False)])
def test_r111_position_deletes_reach_files_not_younger_than_themselves(sequence_number, applies):
    pairs = applied(data("a", sequence_number=sequence_number), positions("d", sequence_number=3))
    assert pairs == ({("a", "d")} if applies else set())


@pytest.mark.parametrize(("sequence_number", "applies"), [(2, True), (3, False), (4, False)])
def test_r112_equality_deletes_reach_older_files_only(sequence_number, applies):
    pairs = applied(data("a", sequence_number=sequence_number), equality("e", sequence_number=3))
    assert pairs == ({("a", "e")} if applies else set())


@pytest.mark.parametrize(("sequence_number", "applies"), [(2, True), (3, False), (4, False)])
def test_r112_equality_deletes_of_a_partition_reach_its_older_files_only(sequence_number, applies):
    x = {"spec_id": 1, "partition_key": key("x")}
    file, delete = data("a", sequence_number=sequence_number, **x), equality("e", **x)
    assert applied(file, delete | {"sequence_number": 3}) == ({("a", "e")} if applies else set())


def test_r111_no_two_specs_and_partitions_are_taken_for_one():
    x1, y1, x2, y2 = (
        {"spec_id": spec_id, "partition_key": key(value)} for spec_id in (1, 2) for value in "xy"
    )
    deletes_of = [
        positions(f"{name}{number}", sequence_number=number, **place)
        for name, place in (("x1-", x1), ("y1-", y1), ("x2-", x2))
        for number in (2, 3)
    ]
    files = [data("x1", **x1), data("y1", **y1), data("x2", **x2), data("y2", **y2)]
    expected = {(name, f"{name}-{number}") for name in ("x1", "y1", "x2") for number in (2, 3)}
    for at, file in enumerate(files):
        only = {pair for pair in expected if pair[0] == file["location"]}
        assert applied(file, *deletes_of) == only
        assert applied(*files[: at + 1], *deletes_of) >= only
    assert applied(*files, *deletes_of) == expected


def test_r113_a_file_that_no_delete_names_is_not_that_of_another_partition():
    x, y = ({"spec_id": 1, "partition_key": key(value)} for value in "xy")
    names_f = positions("d", referenced_data_file="f", sequence_number=2, **x)
    reaches_nothing = equality("e", sequence_number=1, **y)
    assert applied(data("f", **x), data("g", **y), names_f, reaches_nothing) == {("f", "d")}
    assert applied(data("g", **y), names_f, reaches_nothing) == set()


def test_r111_position_deletes_stay_in_their_partition_and_spec():
    assert applied(
        data("same", spec_id=1, partition_key=key("x")),
        data("other partition", spec_id=1, partition_key=key("y")),
        data("other spec", spec_id=2, partition_key=key("x")),
        positions("d", spec_id=1, partition_key=key("x"), sequence_number=2),
    ) == {("same", "d")}


def test_r111_position_deletes_of_an_unpartitioned_spec_are_not_global():
    assert applied(
        data("in spec 0"),
        data("in spec 1", spec_id=1, partition_key=key("x")),
        positions("d", sequence_number=2),
    ) == {("in spec 0", "d")}


def test_r111_a_named_data_file_excludes_the_others():
    assert applied(
        data("a"), data("b"), positions("d", sequence_number=2, referenced_data_file="b")
    ) == {("b", "d")}


def test_r112_equality_deletes_of_an_unpartitioned_spec_are_global():
    assert applied(
        data("a"),
        data("b", spec_id=1, partition_key=key("x")),
        data("c", spec_id=1, partition_key=key("y")),
        equality("everywhere", sequence_number=2),
        equality("in x", spec_id=1, partition_key=key("x"), sequence_number=2),
    ) == {("a", "everywhere"), ("b", "everywhere"), ("c", "everywhere"), ("b", "in x")}


def test_r085_equality_deletes_with_only_void_fields_are_global():
    void = b"\x00"
    rows = (
        data("a", spec_id=1, partition_key=key("x")),
        equality("e", spec_id=3, partition_key=void, sequence_number=2),
    )
    assert applied(*rows, unpartitioned={3}) == {("a", "e")}
    assert applied(*rows, unpartitioned=set()) == set()


def test_r113_a_vector_displaces_position_deletes_of_its_file_only():
    assert applied(
        data("a"),
        data("b"),
        positions("d", sequence_number=2),
        positions("to a", sequence_number=2, referenced_data_file="a"),
        equality("e", sequence_number=2),
        vector("v", "a", sequence_number=3),
    ) == {("a", "v"), ("a", "e"), ("b", "d"), ("b", "e")}


@pytest.mark.parametrize(
    ("values", "applies"),
    [
        ({"sequence_number": 5}, True),
        ({"sequence_number": 4}, False),
        ({"sequence_number": 5, "partition_key": key("y")}, False),
        ({"sequence_number": 5, "spec_id": 2}, False),
    ],
)
def test_r113_a_vector_needs_the_partition_and_a_sequence_number_not_below(values, applies):
    partition = {"spec_id": 1, "partition_key": key("x")}
    pairs = applied(
        data("a", sequence_number=5, **partition), vector("v", "a", **(partition | values))
    )
    assert pairs == ({("a", "v")} if applies else set())


def test_files_are_named_across_the_spellings_of_a_local_path():
    assert applied(data("file:///t/a"), vector("v", "/t/a")) == {("file:///t/a", "v")}


def test_deleted_entries_take_no_part():
    assert applied(
        data("gone", status=Status.DELETED),
        data("a"),
        positions("old", status=Status.DELETED, sequence_number=2),
        positions("d", sequence_number=2, status=Status.EXISTING),
    ) == {("a", "d")}


def test_pairs_come_in_order_of_data_file_then_delete_file():
    matches = deletes.match(
        entries(
            equality("e", sequence_number=9),
            data("a", sequence_number=2),
            positions("p", sequence_number=3),
            data("b", sequence_number=1),
            positions("q", sequence_number=1),
        ),
        UNPARTITIONED,
    )
    assert deletes.pairs(matches).to_pydict() == {
        "data_row": [0, 0, 1, 1, 1],
        "delete_row": [0, 1, 0, 1, 2],
    }


def test_deletes_are_counted_per_data_file_and_delete_file():
    matches = deletes.match(
        entries(
            data("a"),
            data("b"),
            data("young", sequence_number=8),
            positions("p", sequence_number=2),
            positions("q", sequence_number=3, referenced_data_file="b"),
            equality("e", sequence_number=2),
            vector("v", "a", sequence_number=3),
        ),
        UNPARTITIONED,
    )
    assert deletes.delete_counts(matches).tolist() == [2, 3, 0]
    assert deletes.per_delete_file(matches).tolist() == [1, 1, 2, 1]


def test_deletes_of_every_kind_are_counted_per_data_file():
    matches = deletes.match(
        entries(
            data("a"),
            data("b"),
            data("c", sequence_number=9),
            data("d"),
            vector("v", "a", record_count=5),
            positions("of d", referenced_data_file="d", record_count=3),
            positions("of b", referenced_data_file="b", record_count=7),
            positions("of b too", referenced_data_file="b", record_count=2, sequence_number=3),
            positions("of all", record_count=100, sequence_number=4),
            equality("by value", record_count=50, sequence_number=5),
        ),
        UNPARTITIONED,
    )
    assert deletes.delete_counts(matches).tolist() == [2, 4, 0, 3]
    assert deletes.known_deleted_rows(matches).tolist() == [5, 9, 0, 3]


def test_dangling_deletes_reach_no_live_data_file():
    matches = deletes.match(
        entries(
            data("a", sequence_number=5),
            data("gone", status=Status.DELETED),
            positions("too old", sequence_number=4),
            positions("fits", sequence_number=5),
            equality("same age", sequence_number=5),
            vector("of gone", "gone", sequence_number=5),
            vector("of nothing", "nowhere", sequence_number=5),
        ),
        UNPARTITIONED,
    )
    assert named(deletes.dangling(matches)) == ["too old", "same age", "of gone", "of nothing"]


def test_r115_position_deletes_dangle_once_all_their_files_have_vectors():
    rows = [
        data("a"),
        data("b"),
        positions("d", sequence_number=2),
        vector("va", "a", sequence_number=3),
    ]
    assert named(deletes.dangling(deletes.match(entries(*rows), UNPARTITIONED))) == []
    rows.append(vector("vb", "b", sequence_number=3))
    assert named(deletes.dangling(deletes.match(entries(*rows), UNPARTITIONED))) == ["d"]


def test_a_table_without_deletes_or_without_data_has_no_pairs():
    assert applied(data("a")) == set()
    assert applied() == set()
    matches = deletes.match(entries(positions("d"), equality("e")), UNPARTITIONED)
    assert named(deletes.dangling(matches)) == ["d", "e"]
    assert deletes.delete_counts(matches).tolist() == []


def test_r211_a_delete_in_another_partition_than_its_file_is_misplaced():
    x, y = ({"spec_id": 1, "partition_key": key(value)} for value in "xy")
    matches = deletes.match(
        entries(
            data("a", **x),
            data("/b", **x),
            data("c", **x),
            vector("right", "a", **x),
            vector("other partition", "file:///b", **y),
            vector("other spec", "c", spec_id=2, partition_key=key("x")),
            vector("of nothing", "nowhere", **y),
            positions("older", referenced_data_file="a", sequence_number=0, **y),
            positions("file", referenced_data_file="a", **y),
        ),
        UNPARTITIONED,
    )
    delete_rows, data_rows = deletes.misplaced_deletes(matches)
    assert named(rows.take(matches.deletes, delete_rows)) == [
        "other partition", "other spec", "file",
    ]  # fmt: skip
    assert named(rows.take(matches.data, data_rows)) == ["/b", "c", "a"]


def test_r211_deletes_that_name_no_file_are_not_misplaced():
    matches = deletes.match(entries(data("a"), positions("d"), equality("e")), UNPARTITIONED)
    assert [found.tolist() for found in deletes.misplaced_deletes(matches)] == [[], []]


def test_of_deletes_that_name_their_file_only_those_in_another_spelling_are_resolved():
    matches = deletes.match(
        entries(
            data("hdfs://new/a"),
            data("b"),
            positions("p", referenced_data_file="hdfs://old/a", sequence_number=2, record_count=3),
            positions("q", referenced_data_file="b", sequence_number=2),
        ),
        UNPARTITIONED,
    )
    found = deletes.resolve_names(matches, {}, {"hdfs://old/a": "hdfs://new/a"})
    assert named(rows.take(matches.deletes, found.delete_rows)) == ["p"]
    assert named(rows.take(matches.data, found.data_rows)) == ["hdfs://new/a"]
    assert found.misspelt.tolist() == [3, 0]


def test_deletes_of_one_data_file_are_told_by_kind():
    x = {"spec_id": 1, "partition_key": key("x")}
    matches = deletes.match(
        entries(
            data("a", **x),
            data("b", **x),
            data("bare", sequence_number=9),
            vector("v", "a", sequence_number=2, **x),
            positions("names b", sequence_number=2, **x),
            positions("names a", sequence_number=2, **x),
            positions("unread", sequence_number=2, **x),
            positions("of b", referenced_data_file="b", sequence_number=2, **x),
            equality("of partition", sequence_number=2, **x),
            equality("everywhere", sequence_number=3),
        ),
        UNPARTITIONED,
    )
    found = deletes.resolve_names(matches, {"names b": {"b": 1}, "names a": {"a": 1}}, {})
    index, name = deletes.DeleteIndex(matches, found), named(matches.deletes)
    told = [
        tuple(
            [name[at] for at in kind]
            for kind in (one.vectors, one.position_deletes, one.equality_deletes)
        )
        for one in (index.of(0), index.of(1), index.of(2))
    ]
    equality_deletes = ["of partition", "everywhere"]
    assert told == [
        (["v"], [], equality_deletes),
        ([], ["names b", "unread", "of b"], equality_deletes),
        ([], [], []),
    ]


def test_r211_deletes_that_some_readers_apply_do_not_dangle():
    x, y = ({"spec_id": 1, "partition_key": key(value)} for value in "xy")
    matches = deletes.match(
        entries(
            data("file:///a", **x),
            data("b", **x),
            positions("other slashes", referenced_data_file="/a", sequence_number=2, **x),
            positions("nothing", referenced_data_file="nowhere", sequence_number=2, **x),
            positions("other partition", referenced_data_file="b", sequence_number=2, **y),
            positions("names other partition", sequence_number=2, **y),
            positions("names nothing", sequence_number=2, **x),
        ),
        UNPARTITIONED,
    )
    read = {"names other partition": {"b": 1}, "names nothing": {"nowhere": 1}}
    found = deletes.resolve_names(matches, read, {"/a": "file:///a"})
    dangling = deletes.dangling_rows(matches, found)
    assert named(rows.take(matches.deletes, dangling)) == ["nothing", "names nothing"]


def test_position_deletes_of_partitions_are_needed_for_the_files_that_stay():
    matches = deletes.match(
        entries(
            data("goes"),
            data("stays"),
            positions("names both", sequence_number=2),
            positions("names what goes", sequence_number=2),
            positions("unread", sequence_number=2),
            positions("of what goes", referenced_data_file="goes", sequence_number=2),
        ),
        UNPARTITIONED,
    )
    read = {"names both": {"goes": 1, "stays": 1}, "names what goes": {"goes": 1}}
    found = deletes.resolve_names(matches, read, {})
    needed = deletes.needed_elsewhere(matches, found, ["goes"])
    assert named(rows.where(matches.deletes, needed)) == ["names both", "unread"]
