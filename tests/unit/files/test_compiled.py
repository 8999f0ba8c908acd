"""The library of compiled loops: how it is built and found, and that icectl does without it."""

import platform
import shutil

import numpy as np
import pytest

from icectl.cli.app import main
from icectl.files import build_loops, compiled
from tests.builders.table_builder import filled_table

needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="the machine has no C compiler"
)


@pytest.fixture
def no_compiler(monkeypatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)


def test_this_checkout_has_its_loops():
    assert compiled.loops() is not None, "run: python -m icectl.files.build_loops"


def test_a_library_of_other_sources_is_not_found(monkeypatch, tmp_path):
    monkeypatch.setattr(compiled, "SOURCE", tmp_path / "loops.c")
    name = []
    for source in (b"int one;", b"int other;"):
        (tmp_path / "loops.c").write_bytes(source)
        name.append(compiled.library_name())
    assert name == ["loops-a8f0442b.so", "loops-540264fb.so"]
    assert compiled.loops.__wrapped__() is None


@needs_compiler
def test_the_library_is_built_in_a_folder(tmp_path):
    assert build_loops.build(tmp_path) == tmp_path / compiled.library_name()
    assert [path.name for path in tmp_path.iterdir()] == [compiled.library_name()]


@needs_compiler
def test_an_installation_fetches_no_compiler_where_there_is_one():
    assert build_loops.packaged_compilers() == []


def test_without_a_compiler_nothing_is_built(no_compiler, tmp_path):
    assert build_loops.build(tmp_path) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("system", "machine", "packages"),
    [
        ("Linux", "x86_64", ["ziglang"]),
        ("Darwin", "arm64", ["ziglang"]),
        ("FreeBSD", "amd64", []),
        ("Linux", "sparc64", []),
    ],
)
def test_without_a_compiler_an_installation_fetches_one_that_is_there_for_the_machine(
    system, machine, packages, no_compiler, monkeypatch
):
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert build_loops.packaged_compilers() == packages


def test_a_compiler_that_fails_is_passed_over(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "false --always")
    assert (build_loops.build(tmp_path) is None) == (shutil.which("cc") is None)


@pytest.mark.parametrize(
    "array",
    [np.zeros(4, np.int32), np.zeros((4, 4), np.int64)[:, 1], np.zeros((4, 4), np.int64).T],
    ids=["kind", "column", "transposed"],
)
def test_arrays_of_another_kind_or_order_reach_no_loop(array):
    with pytest.raises(TypeError, match=r"not <class 'numpy.int64'> side by side"):
        compiled.address(array, np.int64)


def test_commands_do_without_the_loops(monkeypatch, tmp_path, capsys):
    table = filled_table(tmp_path, *(range(10 * first, 10 * first + 10) for first in range(4)))
    told = []
    for loops in (compiled.loops(), None):
        monkeypatch.setattr(compiled, "loops", lambda loops=loops: loops)
        assert main(["inspect", table.location, "files", "--json"]) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]
    assert main(["rewrite-manifests", table.location, "--yes"]) == 0
    assert main(["validate", table.location, "--level", "data"]) == 0
