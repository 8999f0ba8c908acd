"""A quick start: methods of dataclasses compiled when called do what others do, no threads."""

import subprocess
import sys
from pathlib import Path

import pytest

CLASSES = """
import copy, pickle, threading
from dataclasses import dataclass, field, fields, replace

@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 2
    tags: list = field(default_factory=list, compare=False, repr=False)

@dataclass(frozen=True, slots=True, order=True)
class Far(Point):
    z: int = 3

    def __post_init__(self):
        if self.z < 0:
            raise ValueError(f"{self!r} is near")

@dataclass(slots=True)
class Count:
    self_: int
    n: int = 0
"""
OF_ICECTL = f"""
import sys, types
module = sys.modules["icectl.points"] = types.ModuleType("icectl.points")
exec({CLASSES!r}, vars(module))
globals().update((name, what) for name, what in vars(module).items() if name[:2] != "__")
"""
"""Classes of other packages are left alone."""
ASKED = """
def told(ask):
    try:
        return repr(ask())
    except Exception as error:
        return f"{type(error).__name__}: {error}"

def change(target):
    target.x = 5

def drop(target):
    del target.x

count = Count(self_=1)
count.n += 4
for ask in (
    lambda: Point(1), lambda: Point(y=4, x=3), lambda: Far(1, 2, [], 4),
    lambda: Point(1) == Point(1, 2, [7]), lambda: Point(1) == Far(1), lambda: Point(1) != 1,
    lambda: hash(Point(1)) == hash(Point(1, 2)), lambda: {Point(1): 5}[Point(1)],
    lambda: Far(1) < Far(2), lambda: sorted([Far(3), Far(1)]), lambda: Far(1) >= Far(1),
    lambda: Point(), lambda: Point(1, 2, 3, 4), lambda: Point(1, w=1), lambda: Far(1, z=-1),
    lambda: change(Point(1)), lambda: drop(Far(1)), lambda: replace(Far(1, 2), x=9),
    lambda: copy.deepcopy(Far(1, 2, [3])), lambda: pickle.loads(pickle.dumps(Far(4))),
    lambda: count, lambda: hash(count), lambda: [each.name for each in fields(Far)],
    lambda: Point.__init__.__qualname__, lambda: Far.__match_args__, lambda: vars(Point(1)),
    lambda: Point(1).tags is Point(1).tags,
):
    print(told(ask))
"""


def run(script: str, python: str = sys.executable) -> str:
    """What a script prints, in a process of its own."""
    ended = subprocess.run([python, "-c", script], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_classes_behave_as_they_do_without() -> None:
    later = "from icectl.cli.class_methods import compile_methods_later as c; c()\n"
    told = run(later + OF_ICECTL + ASKED)
    assert told == run(OF_ICECTL + ASKED)
    assert told.splitlines()[0] == "Point(x=1, y=2)"


@pytest.mark.skipif(sys.version_info >= (3, 13), reason="dataclasses compile otherwise there")
def test_a_method_is_compiled_with_its_first_call_and_then_the_class_has_it() -> None:
    script = (
        "import dataclasses; real, names = dataclasses._create_fn, []\n"
        "def seen(name, *a, **k): names.append(name); return real(name, *a, **k)\n"
        "dataclasses._create_fn = seen\n"
        "from icectl.cli.class_methods import compile_methods_later; compile_methods_later()\n"
        f"{CLASSES}\n"
        "print(len(names)); names.clear()\n"
        f"{OF_ICECTL}\n"
        "print(names); start = threading.Barrier(8); found = []\n"
        "def make(): start.wait(); found.append(Far(1))\n"
        "threads = [threading.Thread(target=make) for _ in range(8)]\n"
        "[each.start() for each in threads]; [each.join() for each in threads]\n"
        "print(len(set(found)), *sorted(set(names)))\n"
        "names.clear(); Far(1), Far(2); repr(Far(1)), repr(Far(1)); print(names)\n"
        "print(Far.__init__.__code__.co_varnames)\n"
    )
    assert run(script).splitlines() == [
        "19",
        "[]",
        "1 __eq__ __hash__ __init__",
        "['__repr__']",
        "('self', 'x', 'y', 'tags', 'z')",
    ]


def test_a_run_compiles_few_methods() -> None:
    script = (
        "import sys, dataclasses\n"
        "import icectl.__main__\n"
        "from icectl.cli.options import Invocation\n"
        "print(Invocation.__init__.__code__.co_name)\n"
    )
    assert run(script) == ("method\n" if sys.version_info < (3, 13) else "__init__\n")


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
@pytest.mark.parametrize(("given", "kept"), [(None, "1"), ("3", "3")])
def test_a_run_starts_no_threads_for_algebra_unless_it_is_told_to(
    given: str | None, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given is not None:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    script = (
        "import icectl.__main__, numpy, os\n"
        "print(os.environ['OPENBLAS_NUM_THREADS'], len(os.listdir('/proc/self/task')))\n"
    )
    told, threads = run(script).split()
    assert told == kept
    assert int(threads) == 1 or given is not None
