"""What icectl prints about itself: schemas of its documents, completion scripts, its manual."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from icectl.cli.document import json_text
from icectl.cli.json_schema import document_schema, plan_schema
from icectl.env import find_program, program_folders
from icectl.errors import UsageError
from icectl.table.reviewed import PLANNED

_ROOTS = (Path(__file__).parents[1], Path(__file__).parents[2])
"""Where `man/` and `completions/` are: in an installed package, or in a checkout beside it."""

_SHELLS = {
    "bash": "icectl.bash",
    "zsh": "_icectl",
    "fish": "icectl.fish",
    "powershell": "icectl.ps1",
}


_FILES = ("icectl.toml", "maintain.toml")
"""Files with a page of the manual of their own."""


def show_paper(words: Sequence[str], commands: Mapping[str, str]) -> None:
    """Print what was asked for; a manual page on a terminal goes to `man`, where that is there.

    Raises: UsageError, for what there is not.
    """
    paper, *named = words
    if named and named[0] in ("-h", "--help"):
        sys.stdout.write(f"Usage: icectl {_USAGE[paper]}\n")
        return
    text = _MAKERS[paper](named, commands)
    man = find_program("man") if paper == "man" and sys.stdout.isatty() else None
    if man is not None:
        path = os.pathsep.join(program_folders())
        environment = {**os.environ, "MANROFFOPT": "-c", "PATH": path}
        subprocess.run([man, "-l", "-"], input=text, text=True, env=environment, check=False)  # noqa: S603
        return
    sys.stdout.write(text)


def _schema(named: Sequence[str], commands: Mapping[str, str]) -> str:
    of_plan = "--plan" in named
    names = [word for word in named if word != "--plan"]
    name = _one_of("schema", names, commands)
    if name == "apply":
        raise UsageError(
            "`apply` prints the document of the command that its plan is of",
            hint="`icectl schema COMMAND` prints that command's schema",
        )
    if of_plan and name not in {*PLANNED, "maintain"}:
        raise UsageError(f"`{name}` makes no plan", hint="leave `--plan` out")
    return json_text(plan_schema(name) if of_plan else document_schema(name), indent=2) + "\n"


def _completion(named: Sequence[str], _: Mapping[str, str]) -> str:
    script = _SHELLS[_one_of("completion", named, _SHELLS)]
    return _shipped(f"completions/{script}")


def _man(named: Sequence[str], commands: Mapping[str, str]) -> str:
    page = "icectl.1"
    if named:
        name = _one_of("man", named, {**commands, **dict.fromkeys(_FILES, "")})
        page = f"{name}.5" if name in _FILES else f"icectl-{name}.1"
    return _shipped(f"man/{page}")


def _shipped(path: str) -> str:
    return next(root / path for root in _ROOTS if (root / path).is_file()).read_text("utf-8")


def _one_of(paper: str, named: Sequence[str], known: Mapping[str, str]) -> str:
    """Return the one word that was given. Raises: UsageError, where it is none that is known."""
    if len(named) == 1 and named[0] in known:
        return named[0]
    told = f"`{' '.join(named)}` is none of" if named else "name one of"
    raise UsageError(f"`icectl {paper}`: {told} {', '.join(known)}", hint=f"icectl {_USAGE[paper]}")


_MAKERS: Mapping[str, Callable[[Sequence[str], Mapping[str, str]], str]] = {
    "schema": _schema,
    "completion": _completion,
    "man": _man,
}
_USAGE = {
    "schema": "schema COMMAND [--plan]",
    "completion": "completion bash|zsh|fish|powershell",
    "man": "man [COMMAND]",
}
