"""What icectl prints about itself: schemas of its documents, completion scripts, its manual."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from icectl.errors import UsageError
from icectl.plan.reviewed import PLANNED
from icectl.report.document import document_schema, json_text, plan_schema

_SHELLS = {
    "bash": "completions/icectl.bash",
    "zsh": "completions/_icectl",
    "fish": "completions/icectl.fish",
    "powershell": "completions/icectl.ps1",
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
    if paper == "man" and sys.stdout.isatty() and shutil.which("man"):
        environment = {**os.environ, "MANROFFOPT": "-c"}
        subprocess.run(["man", "-l", "-"], input=text, text=True, env=environment, check=False)  # noqa: S607
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
    from icectl.cli.docs import pages

    return pages()[_SHELLS[_one_of("completion", named, _SHELLS)]]


def _man(named: Sequence[str], commands: Mapping[str, str]) -> str:
    from icectl.cli.docs import pages

    if not named:
        return pages()["man/icectl.1"]
    name = _one_of("man", named, {**commands, **dict.fromkeys(_FILES, "")})
    return pages()[f"man/{name}.5" if name in _FILES else f"man/icectl-{name}.1"]


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
