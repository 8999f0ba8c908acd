"""The check of mutants finds those that no test notices, and leaves the tree as it is."""

import ast
import time
from pathlib import Path

import pytest

from tests.mutation import check
from tests.mutation.check import EXPLAINED, MODULES, TREE, explained, survivors, trials
from tests.mutation.mutants import mutants

MODULE = '''"""A module."""


def is_old(age: int, limit: int) -> bool:
    """Whether it is older."""
    if age < 0:
        return False
    return age > limit
'''
TESTS = """from planted import is_old


def test_old():
    assert is_old(5, 4)
    assert not is_old(4, 5)
    assert is_old(-1, -2) is False
    assert is_old(0, -1)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A module whose tests do not look at the limit itself."""
    (tmp_path / "planted.py").write_text(MODULE)
    (tmp_path / "test_planted.py").write_text(TESTS)
    return tmp_path


def changes(source: str) -> list[str]:
    return [one.name for one in mutants(source)]


def test_a_planted_survivor_is_found_and_nothing_is_changed_in_place(tree):
    given = trials(tree, {"planted.py": ["test_planted.py"]})
    found, tried = survivors(tree, given, workers=2)
    assert [one.name for one in found] == ["planted.py:is_old: age > limit -> (age >= limit)"]
    assert tried == len(given) == 6
    assert (tree / "planted.py").read_text() == MODULE
    assert {path.name for path in tree.iterdir()} == {"planted.py", "test_planted.py"}


OF_EVERY_KIND = '''"""A module."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

LIMIT = 4
LEAST: int = 2


@dataclass(frozen=True, slots=True)
class Age:
    """An age."""

    years: int
    is_known: bool = False

    @property
    def is_old(self) -> bool:
        """Whether it is old."""
        return self.years > 4

    @classmethod
    def of(cls, months: int) -> "Age":
        """Make it."""
        return cls(months // 12)

    def grown(self) -> int:
        """Add one."""
        return self.years + 1


@contextmanager
def held(ages: list[int]) -> Iterator[int]:
    """Hold them."""
    yield len(ages)
    ages.clear()
'''
TESTS_OF_EVERY_KIND = """from every import LEAST, LIMIT, Age, held


def test_every():
    assert (LIMIT, LEAST, Age(1).is_known) == (4, 2, False)
    assert [Age(4).is_old, Age(5).is_old] == [False, True]
    assert Age.of(24) == Age(2)
    assert Age(3).grown() == 4
    ages = [1]
    with held(ages) as count:
        assert count == 1
    assert ages == []
"""


def test_mutants_of_whatever_statement_are_killed_in_forks(tmp_path):
    (tmp_path / "every.py").write_text(OF_EVERY_KIND)
    (tmp_path / "test_every.py").write_text(TESTS_OF_EVERY_KIND)
    given = trials(tmp_path, {"every.py": ["test_every.py"]})
    assert len(given) >= 10
    assert check.left_by_forks(tmp_path, given) == []


def test_tests_that_fail_by_themselves_are_no_measure(tree):
    (tree / "test_planted.py").write_text("def test_it():\n    assert False\n")
    given = trials(tree, {"planted.py": ["test_planted.py"]})
    with pytest.raises(RuntimeError, match=r"tests fail without a mutant: test_planted\.py"):
        survivors(tree, given, workers=1)


def test_after_the_time_nothing_more_is_tried(tree):
    given = trials(tree, {"planted.py": ["test_planted.py"]})
    assert survivors(tree, given, 1, time.monotonic() - 1) == ([], 0)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a <= b", ["a <= b -> (a < b)"]),
        ("0 <= a < b", ["0 -> (1)", "0 <= a < b -> (0 <= a)", "0 <= a < b -> (a < b)"]),
        ("a in b", ["a in b -> (a not in b)"]),
        ("not a", ["not a -> (a)"]),
        ("a and b", ["a and b -> (a or b)", "a and b -> (a)", "a and b -> (b)"]),
        ("a + b", ["a + b -> (a - b)"]),
        ("a if b else c", ["a if b else c -> (a)", "a if b else c -> (c)"]),
        ("[a, *b]", ["[a, *b] -> ([*b])", "[a, *b] -> ([a])"]),
        ("{a, *b}", ["{a, *b} -> ({*b})", "{a, *b} -> ({a})"]),
        ("[a for a in b if c]", ["[a for a in b if c] -> ([a for a in b])"]),
        ("max(a, b)", ["max(a, b) -> (min(a, b))"]),
        ("f(strict=True)", []),
        ("f(other=True)", ["True -> (False)"]),
        ("'text'", []),
    ],
)
def test_changes_are_small(source, expected):
    found = changes(f"def f():\n    x = {source}\n")
    assert sorted(found) == sorted(f"f: {one}" for one in expected)


def test_statements_that_do_something_are_left_out():
    source = "def f():\n    a.add(b)\n    a += b\n    raise C\n"
    expected = ["f: a += b -> pass", "f: a.add(b) -> pass", "f: raise C -> pass"]
    assert sorted(changes(source)) == expected


def test_what_stands_twice_is_told_apart():
    assert changes("def f():\n    x = a < b\n    y = a < b\n") == [
        "f: a < b -> (a <= b)",
        "f: a < b -> (a <= b) #2",
    ]


@pytest.mark.parametrize("stride", [10, pytest.param(1, marks=pytest.mark.full)])
@pytest.mark.parametrize("module", MODULES)
def test_every_mutant_of_the_project_is_a_module_and_has_tests(module, stride):
    source = (TREE / "icectl" / module).read_text()
    found = mutants(source)
    assert len({one.name for one in found}) == len(found) > 10
    for one in found[::stride]:
        ast.parse(one.source)
        assert one.source != source
    assert all((TREE / "tests" / test).exists() for test in MODULES[module])


def test_what_is_explained_is_still_there_with_its_reason():
    known = explained(EXPLAINED.read_text())
    given = trials(TREE, {f"icectl/{name}": tests for name, tests in MODULES.items()})
    assert known.keys() <= {one.name for one in given}
    assert all(known.values())
    assert check.explained("# comment\nm.py:f: a -> b\n    one\n    two\n\nn.py:g: c -> d\n") == {
        "m.py:f: a -> b": "one two",
        "n.py:g: c -> d": "",
    }
