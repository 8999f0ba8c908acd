"""The layers of the house: imports point downward, third parties stay where they belong."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "icectl"

LAYERS = [
    {"errors", "progress", "__init__"}, {"units", "env"}, {"format"}, {"entries"}, {"files"},
    {"checks"}, {"storage"}, {"catalog"}, {"table"}, {"rows"}, {"commit"}, {"sfc1"}, {"cli"},
    {"commands"}, {"__main__", "spark"},
]  # fmt: skip
"""Lowest first; a package imports only from lines above its own, and itself."""

HOME_OF = {
    "typer": {"cli", "commands"},
    "yaml": {"catalog"},
    "rich": {"cli"},
    "cryptography": {"commands"},
    "fsspec": {"storage"},
    "s3fs": {"storage"},
    "aiobotocore": {"storage"},
    "botocore": {"storage", "catalog"},
    "obstore": {"storage"},
    "google": {"storage"},
    "hdfs_native": {"storage"},
    "urllib3": {"catalog"},
    "psycopg": {"catalog"},
    "psycopg2": {"catalog"},
    "pymysql": {"catalog"},
    "MySQLdb": {"catalog"},
    "fastavro": {"files"},
    "isal": {"files"},
    "cramjam": {"files"},
    "pyroaring": {"files"},
    "mmh3": {"format"},
    "xxhash": {"files"},
    "pyspark": {"rows", "spark"},
    "py4j": {"rows"},
    "numpy": {
        "checks",
        "files",
        "entries",
        "storage",
        "rows",
        "table",
        "commit",
        "sfc1",
        "commands",
    },
    "pyarrow.parquet": {"files", "storage", "table"},
    "pyarrow.compute": {
        "checks",
        "files",
        "entries",
        "storage",
        "table",
        "rows",
        "commit",
        "sfc1",
        "commands",
    },
    "pyarrow": {
        "checks",
        "files",
        "entries",
        "storage",
        "table",
        "rows",
        "commit",
        "sfc1",
        "commands",
    },
}
"""Where a third-party module may be imported; one that is not here may not be imported at all."""

PURE = {"checks", "entries", "format"}
IMPURE_MODULES = {"time", "random", "uuid", "os", "logging", "pathlib"}


@cache
def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports_of(path: Path) -> list[tuple[str, int]]:
    return list(imports(tree_of(path)))


def home(path: Path) -> str:
    """The package, or the top-level module, that a file belongs to."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def layer(name: str) -> int:
    return next(number for number, names in enumerate(LAYERS) if name in names)


def imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Every imported module with its line; `from icectl.a import b` counts as icectl.a."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.lineno
            for alias in node.names:
                yield f"{node.module}.{alias.name}", node.lineno


def first_party(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] != "icectl":
        return None
    return parts[1] if len(parts) > 1 else "__init__"


def test_imports_point_downward():
    assert [
        f"{path}:{line} imports {module} from above or beside"
        for path in modules()
        for module, line in imports_of(path)
        if (target := first_party(module)) not in (None, home(path))
        and any(target in names for names in LAYERS)
        and layer(str(target)) >= layer(home(path))
    ] == []


RUNS_OTHERS = {
    "apply": {"maintain"},
    "maintain": {"validate"},
    "migrate_v1_v2": {"compact", "rewrite_manifests", "upgrade_to_v4"},
    "upgrade_to_v3": {"migrate_v1_v2"},
    "upgrade_to_v4": {"compact", "rewrite_manifests"},
    "repair": {"validate"},
    "erase": {
        "compact", "expire_rows", "expire_snapshots", "refs", "remove_orphans",
        "rewrite_manifests", "rows",
    },
    "expire_rows": {"rows"},
    "inspect": {"rows"},
}  # fmt: skip
"""Commands that are made of others, and import these; `rows` are functions for Spark programs."""


def test_commands_import_no_other_command_but_those_that_they_run():
    """Nor do two parts of `commands`, folders or modules, import each other."""
    folder = PACKAGE / "commands"
    commands = {path.parent.name for path in folder.glob("*/options.py")} | {"rows"}
    found: dict[str, set[str]] = {}
    for path in modules():
        if home(path) == "commands":
            own = path.relative_to(folder).parts[0].removesuffix(".py")
            for module, _ in imports_of(path):
                name = ".".join(module.split(".")[2:3])
                if module.startswith("icectl.commands.") and name != own:
                    found.setdefault(own, set()).add(name)
    assert {
        own: names & commands
        for own, names in found.items()
        if own in commands and names & commands
    } == RUNS_OTHERS
    assert [
        (own, name) for own, names in found.items() for name in names if own in found.get(name, ())
    ] == []


def test_third_party_modules_stay_in_their_home():
    wrong = []
    for path in modules():
        for module, line in imports_of(path):
            top = module.split(".")[0]
            if top == "icectl" or top in sys.stdlib_module_names:
                continue
            known = [name for name in HOME_OF if module == name or module.startswith(f"{name}.")]
            if not known:
                wrong.append(f"{path}:{line} imports {module}, which has no home")
            elif home(path) not in (allowed := HOME_OF[max(known, key=len)]):
                wrong.append(f"{path}:{line} imports {module} outside {sorted(allowed)}")
    assert wrong == []


def test_spark_stays_in_modules_that_are_named_for_it():
    for path in modules():
        tops = {module.split(".")[0] for module, _ in imports_of(path)}
        assert path.name.startswith("spark") or not tops & {"pyspark", "py4j"}, path


def is_pure(path: Path) -> bool:
    """Whether a module decides, and does nothing: a pure package, or a command's plan."""
    return home(path) in PURE or (home(path) == "commands" and "plan" in path.stem.split("_"))


MAY_USE_UUID = {"single_value.py", "partition_key.py", "variant.py"}


def test_what_decides_touches_neither_clock_nor_system():
    pure = [path for path in modules() if is_pure(path)]
    assert pure
    assert [
        f"{path}:{line} imports {module}"
        for path in pure
        for module, line in imports_of(path)
        if module.split(".")[0] in IMPURE_MODULES
        and not (module.split(".")[0] == "uuid" and path.name in MAY_USE_UUID)
    ] == []


IMPORTS_LATE = {"__main__", "cli", "commands"}
IMPORTS_BY_KIND = {
    PACKAGE / "catalog" / "resolve.py",
    PACKAGE / "files" / "manifest" / "manifest.py",
    PACKAGE / "storage" / "open.py",
}
"""Modules that choose a kind of catalog, store or file, and import it where one is met."""

IMPORTS_OF_FEW_RUNS = {
    PACKAGE / "catalog" / "files.py": "icectl.catalog.commit_file",
    PACKAGE / "table" / "live_file_check.py": "icectl.files.data_file",
    PACKAGE / "table" / "manifest_lists.py": ("icectl.checks", "icectl.entries.may_match"),
    PACKAGE / "table" / "manifests.py": "icectl.checks",
}
"""What only commits, plans, conditions, and files or manifests in doubt need: few other runs."""


def test_first_party_imports_stand_at_the_top():
    assert [
        f"{path}:{line} imports {module} in a function"
        for path in modules()
        if home(path) not in IMPORTS_LATE and path not in IMPORTS_BY_KIND
        for function in ast.walk(tree_of(path))
        if isinstance(function, ast.FunctionDef)
        for module, line in imports(function)
        if first_party(module) is not None
        and not module.startswith(IMPORTS_OF_FEW_RUNS.get(path, module + "."))
    ] == []


def test_texts_but_docstrings_are_ascii():
    wrong = []
    for path in modules():
        nodes = list(ast.walk(tree_of(path)))
        docstrings = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        wrong += [
            f"{path}:{node.lineno}"
            for node in nodes
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and not node.value.isascii()
            and id(node) not in docstrings
        ]
    assert wrong == []


def test_package_docstrings_say_where_to_start():
    for path in PACKAGE.rglob("__init__.py"):
        tree = tree_of(path)
        assert ast.get_docstring(tree), path
        code = [node for node in tree.body[1:] if not isinstance(node, ast.Assign)]
        assert not code, f"{path} holds code"


KNOW_SFC1 = {
    "checks/rules.py", "cli/ci.py", "commands/rows/change.py", "commands/rows/write.py",
    "commands/upgrade_to_v4/heads.py", "commands/upgrade_to_v4/run.py",
    "commands/validate/files.py", "commands/validate/run.py",
}  # fmt: skip
"""What may name a layout's own modules beside these: a command that makes such tables, functions
that write rows of them, what names every rule, and tables of what there is for each layout."""


def test_what_only_a_layout_knows_is_chosen_not_imported():
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if "sfc1" not in path.relative_to(PACKAGE).as_posix()
        and any(".sfc1" in module for module, _ in imports_of(path))
    }
    assert found == KNOW_SFC1
