"""Files that options ask for: whole or not there, and what is no file stays what it is."""

import os

import pytest

from icectl.cli.document import put_in_place
from tests.stores.fixed_env import FixedEnv


def test_the_file_is_replaced_and_nothing_else_is_left(tmp_path):
    file = tmp_path / "m.prom"
    file.write_text("old")
    put_in_place(file, ["new\n"], FixedEnv())
    assert file.read_text() == "new\n"
    assert [path.name for path in tmp_path.iterdir()] == ["m.prom"]


def test_a_name_that_is_no_text_is_written_as_far_as_it_is(tmp_path):
    put_in_place(tmp_path / "m.prom", ["t\udcff\n"], FixedEnv())
    assert (tmp_path / "m.prom").read_text() == "t?\n"


def test_a_failed_write_leaves_the_old_file(tmp_path):
    target = tmp_path / "m.prom"
    target.mkdir()
    with pytest.raises(OSError, match="directory"):
        put_in_place(target, ["new\n"], FixedEnv())
    assert [path.name for path in tmp_path.iterdir()] == ["m.prom"]


def test_what_is_no_file_is_written_to_and_stays(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        put_in_place(pipe, ["new\n"], FixedEnv())
        assert os.read(reader, 10) == b"new\n"
    finally:
        os.close(reader)
    assert pipe.is_fifo()


def test_a_link_stays_one(tmp_path):
    file, link = tmp_path / "m.prom", tmp_path / "link.prom"
    file.write_text("old")
    link.symlink_to(file)
    put_in_place(link, ["new\n"], FixedEnv())
    assert link.is_symlink()
    assert file.read_text() == "new\n"
