"""What icectl prints about itself: schemas of its documents, completion scripts, its manual."""

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

from icectl.cli.document import document_schema, json_text, plan_schema
from icectl.env import find_program, program_folders
from icectl.errors import UsageError
from icectl.table.reviewed import PLANNED

_ROOTS = (Path(__file__).parents[1], Path(__file__).parents[2])
"""Where `man/` and `completions/` are: in an installed package, or in a checkout beside it."""

_SHELLS = {
    "bash": "icectl.bash", "zsh": "_icectl", "fish": "icectl.fish", "powershell": "icectl.ps1",
}  # fmt: skip
_FILES = ("icectl.toml", "maintain.toml")
"""Files with a page of the manual of their own."""


def print_documentation(words: Sequence[str], commands: Mapping[str, str]) -> None:
    """Print a document; a manual page by `man` on a terminal. Raises: UsageError."""
    name, *words = words
    if words and words[0] in ("-h", "--help"):
        sys.stdout.write(f"Usage: icectl {_USAGE[name]}\n{_ABOUT[name]}")
        return
    if name == "schema":
        sys.stdout.write(_schema(words, commands))
    elif name == "completion":
        sys.stdout.write(_read_shipped(f"completions/{_SHELLS[_one_of(name, words, _SHELLS)]}"))
    else:
        _print_manual(words, commands)


def _print_manual(words: Sequence[str], commands: Mapping[str, str]) -> None:
    pages = [word for word in words if word != "--roff"]
    if pages:
        page = _one_of("man", pages, {**commands, **dict.fromkeys(_FILES, "")})
        text = _read_shipped(f"man/{page}.5" if page in _FILES else f"man/icectl-{page}.1")
    else:
        text = _read_shipped("man/icectl.1")
    man = find_program("man") if sys.stdout.isatty() else None
    if "--roff" in words:
        sys.stdout.write(text)
    elif man is None:
        sys.stdout.write(plain_page(text))
    else:
        path = os.pathsep.join(program_folders())
        environment = {**os.environ, "MANROFFOPT": "-c", "PATH": path}
        subprocess.run([man, "-l", "-"], input=text, text=True, env=environment, check=False)  # noqa: S603


def plain_page(page: str) -> str:
    """Render a manual page of icectl as plain text, for pipes and terminals without `man`."""
    lines: list[str] = []
    paragraph: list[str] = []
    margin, is_tag, is_literal = "", False, False
    for line in (*page.splitlines(), ".PP"):
        macro, _, rest = line.partition(" ")
        if macro in _MACROS:
            lines += textwrap.wrap(
                " ".join(paragraph), 79, initial_indent=margin, subsequent_indent=margin,
                break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
            paragraph.clear()
        if macro in (".SH", ".SS", ".PP", ".TP"):
            lines += ["", _plain(rest.strip('"'))] if rest else [""]
            margin, is_tag = _MARGIN, macro == ".TP"
        elif macro in (".nf", ".fi"):
            is_literal = macro == ".nf"
        elif is_tag:
            lines.append(_MARGIN + _plain(line))
            margin, is_tag = 2 * _MARGIN, False
        elif is_literal:
            lines.append(_MARGIN + _plain(line))
        elif macro not in _MACROS:
            paragraph.append(_plain(line))
    return "\n".join(lines).strip() + "\n"


_MACROS = frozenset({".SH", ".SS", ".PP", ".TP", ".TH", ".nf", ".fi", ".nh", ".ad", ".br", '.\\"'})
_MARGIN = "    "


def _plain(text: str) -> str:
    text = re.sub(r"\\f[BIRP]|\\&", "", text)
    return text.replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\e", "\\")


def _schema(words: Sequence[str], commands: Mapping[str, str]) -> str:
    of_plan = "--plan" in words
    names = [word for word in words if word != "--plan"]
    name = _one_of("schema", names, commands)
    if name == "apply":
        raise UsageError(
            "`apply` prints the document of the command in its plan",
            hint="`icectl schema COMMAND` prints that command's schema",
        )
    if of_plan and name not in {*PLANNED, "maintain"}:
        raise UsageError(f"`{name}` has no plans", hint="leave `--plan` out")
    return json_text(plan_schema(name) if of_plan else document_schema(name), indent=2) + "\n"


def _read_shipped(path: str) -> str:
    return next(root / path for root in _ROOTS if (root / path).is_file()).read_text("utf-8")


def _one_of(name: str, words: Sequence[str], known: Mapping[str, str]) -> str:
    """Return the one word. Raises: UsageError, for an unknown one."""
    if len(words) == 1 and words[0] in known:
        return words[0]
    problem = f"`{' '.join(words)}` is not one of" if words else "name one of"
    raise UsageError(
        f"`icectl {name}`: {problem} {', '.join(known)}", hint=f"icectl {_USAGE[name]}"
    )


_ABOUT = {
    "schema": """
Print the JSON Schema of what COMMAND prints with --json, or of its saved plans.
""",
    "completion": """
Print the completion script of a shell.

To install it, add one line to the startup file of the shell:

  bash (~/.bashrc):       source <(icectl completion bash)
  zsh (~/.zshrc):         source <(icectl completion zsh)
  fish (config.fish):     icectl completion fish | source
  PowerShell ($PROFILE):  icectl completion powershell | Out-String | Invoke-Expression

Completion queries configured catalogs for tables, refs and columns, for at most a second.
""",
    "man": """
Show the manual page of a command, of icectl.toml or of maintain.toml; without COMMAND that of
icectl.

On a terminal `man` shows it, or icectl itself if `man` is not installed. In a pipe or a file it is
plain text: `icectl man compact | grep size`. With --roff it is the page's source, for packages:
`icectl man compact --roff > icectl-compact.1`.
""",
}
_USAGE = {
    "schema": "schema COMMAND [--plan]",
    "completion": "completion bash|zsh|fish|powershell",
    "man": "man [COMMAND] [--roff]",
}
