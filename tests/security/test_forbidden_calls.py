"""Calls that could run what was read: none in the product, but where it is said why it may be."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

FORBIDDEN_MODULES = {
    "pickle", "cPickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve", "multiprocessing",
    "subprocess", "pty", "imp", "runpy", "code", "codeop", "ctypes", "webbrowser",
}  # fmt: skip
FORBIDDEN_NAMES = {"eval", "exec", "compile", "__import__", "breakpoint"}
FORBIDDEN_ATTRIBUTES = {
    "system", "popen", "execv", "execve", "execvp", "execvpe", "execl", "execlp", "spawnv",
    "spawnl", "spawnvp", "posix_spawn", "fork", "import_module", "exec_module", "load_module",
    "unsafe_load", "full_load", "mktemp", "recv", "run_path", "run_module",
}  # fmt: skip
OF_YAML = {"load", "load_all"}

COMPUTED_IMPORT = "it imports a name of a constant table of its own, never one that was read"
ALLOWED = {
    ("cli/registry.py", "import_module"): COMPUTED_IMPORT,
    ("commands/steps.py", "import_module"): COMPUTED_IMPORT,
    ("commit/snapshot_writer.py", "import_module"): COMPUTED_IMPORT,
    ("commands/validate/lists.py", "import_module"): COMPUTED_IMPORT,
    ("table/manifest_lists.py", "import_module"): COMPUTED_IMPORT,
    ("cli/documentation.py", "subprocess"): "the system's `man`, by its absolute path",
    ("cli/pager.py", "subprocess"): "the user's pager, which the environment alone names",
    ("files/build_loops.py", "subprocess"): "the compiler, when icectl is built",
    ("files/compiled.py", "ctypes"): "icectl's own library, beside the module",
    ("rows/forked_processes.py", "fork"): "copies of this process, before it has read anything",
    ("rows/forked_processes.py", "recv"): "a socket's: a number, from the copy that forks workers",
    ("rows/spark.py", "recv"): "a socket's: one byte, which nothing looks at",
    ("rows/spark_classic.py", "subprocess"): "`java -version`, by an absolute path",
    ("storage/local/store.py", "ctypes"): "one call of the system, with numbers alone",
    ("rows/workers.py", "subprocess"): "workers: this Python and icectl, never the folder here",
    ("rows/workers.py", "fork"): "a request for a copy, with a socket alone",
    ("rows/workers.py", "multiprocessing"): "its Connection frames the bytes of a pipe",
    ("rows/workers.py", "recv"): "on workers only, which get calls from the process above them",
}
"""Each place with its reason. Whoever adds one has to show that nothing that is read gets there."""

RECEIVERS = {"_AskedFile", "_serve_forked", "_run_calls", "_answer"}
"""What of workers.py runs on workers: all else reads bytes, and decodes them as data."""


def product() -> list[Path]:
    return sorted((ROOT / "icectl").rglob("*.py"))


def called(node: ast.Call) -> str | None:
    """The forbidden name that a call is of."""
    match node.func:
        case ast.Name(name) if name in FORBIDDEN_NAMES | FORBIDDEN_ATTRIBUTES:
            return name
        case ast.Attribute(ast.Name("re" | "platform"), _):
            return None
        case ast.Attribute(ast.Name("yaml"), name) if name in OF_YAML:
            return f"yaml.{name}"
        case ast.Attribute(ast.Name(module), name) if module in ("builtins", "__builtins__"):
            return name
        case ast.Attribute(_, name) if name in FORBIDDEN_ATTRIBUTES:
            return name
    return None


def found(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every forbidden import and call, with its line."""
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        elif isinstance(node, ast.Call):
            call = called(node)
            if call is not None:
                yield call, node.lineno
        yield from (
            (root, node.lineno)  # type: ignore[attr-defined]
            for name in names
            if (root := name.partition(".")[0]) in FORBIDDEN_MODULES
        )


@cache
def all_found() -> list[tuple[str, str, int]]:
    return [
        (path.relative_to(ROOT / "icectl").as_posix(), name, line)
        for path in product()
        for name, line in found(ast.parse(path.read_text("utf-8")))
    ]


def test_nothing_that_could_run_what_is_read_is_called():
    wrong = [
        f"icectl/{place}:{line}: {name}"
        for place, name, line in all_found()
        if (place, name) not in ALLOWED
    ]
    assert wrong == []


def test_every_exception_is_still_needed():
    assert set(ALLOWED) == {(place, name) for place, name, _ in all_found()}


def test_only_workers_unpickle_calls():
    for part in ast.parse((ROOT / "icectl/rows/workers.py").read_text("utf-8")).body:
        names = [name for name, _ in found(part)]
        if "recv" in names:
            assert getattr(part, "name", None) in RECEIVERS


def test_yaml_is_read_as_texts():
    """Any other loader makes objects, some of them of whatever class the file names."""
    uses = {
        node.attr
        for path in product()
        if "yaml" in (text := path.read_text("utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "yaml"
    }
    assert uses == {"BaseLoader", "YAMLError"}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("import pickle", "pickle"),
        ("from multiprocessing.connection import Connection", "multiprocessing"),
        ("eval(text)", "eval"),
        ("builtins.exec(text)", "exec"),
        ("os.system(text)", "system"),
        ("importlib.import_module(text)", "import_module"),
        ("yaml.load(text, Loader)", "yaml.load"),
        ("self._line.recv()", "recv"),
    ],
)
def test_the_search_finds_what_it_looks_for(text, name):
    assert [one for one, _ in found(ast.parse(text))] == [name]


def test_a_pattern_is_no_code():
    assert list(found(ast.parse("re.compile(text)"))) == []
