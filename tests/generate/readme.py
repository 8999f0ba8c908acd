"""Renews what the README's commands print: `python -m tests.generate.readme [FOLDER]`.

It builds the table of the tour in FOLDER/orders, or uses an existing one, and runs the console
blocks of the first hour in their order: some minutes. The quickstart is run in FOLDER/quickstart.
The table in FOLDER is changed. Tests run the quickstart as it is printed.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
SECTION = re.compile(r"^## The first hour\n.*?(?=^## )", re.DOTALL | re.MULTILINE)
BLOCK = re.compile(r"(<!-- [^\n]*-->\n\n)?```(sh|console)\n(.*?)```\n", re.DOTALL)
QUICKSTART = "<!-- quickstart -->\n\n"
_END = "-- end of a command --"


def main(folder: Path) -> None:
    """Write the README again, with the output of this run."""
    if not (folder / "orders").exists():
        build = ["-m", "tests.builders.tour", "build", str(folder / "orders")]
        subprocess.run([sys.executable, *build], check=True, cwd=ROOT)
    text = README.read_text("utf-8")
    (folder / "quickstart").mkdir()
    printed = iter(outputs(text, folder / "quickstart"))
    text = BLOCK.sub(
        lambda block: _renewed(block, printed) if block[1] == QUICKSTART else block[0], text
    )
    found = SECTION.search(text)
    assert found is not None, "the README has no first hour"
    commands = [command for block in BLOCK.finditer(found[0]) for command in _commands(block)]
    printed = iter(run_session("", commands, folder))
    renewed = BLOCK.sub(lambda block: _renewed(block, printed), found[0])
    README.write_text(text.replace(found[0], renewed), "utf-8")


def outputs(text: str, folder: Path) -> list[str]:
    """Run the quickstart of the README in a folder; return what each of its commands prints."""
    blocks = [block for block in BLOCK.finditer(text) if block[1] == QUICKSTART]
    script = "".join(block[3] for block in blocks if block[2] == "sh")
    return run_session(script, [name for block in blocks for name in _commands(block)], folder)


def run_session(script: str, commands: Sequence[str], folder: Path) -> list[str]:
    """Run a script and then commands in one shell; return what each of these prints."""
    program = folder / "bin" / "icectl"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m icectl "$@"\n')
    program.chmod(0o755)
    lines = [script.rstrip("\n"), f"echo '{_END}'"]
    for command in commands:
        lines += [command, f"echo '{_END}'"]
    ended = subprocess.run(
        ["sh", "-e"],
        input="\n".join(lines),
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=_environment(program.parent, folder),
    )
    parts = ended.stdout.replace(f"{folder}/", "").split(f"{_END}\n")
    return parts[1:-1]


def _environment(programs: Path, folder: Path) -> Mapping[str, str]:
    """Return the environment of a shell that has icectl, and the settings of no user."""
    folders = (programs, Path(sys.executable).parent, os.environ["PATH"])
    python_path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    home = dict.fromkeys(("HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME"), str(folder))
    path = os.pathsep.join(map(str, folders))
    return {**os.environ, **home, "PATH": path, "PYTHONPATH": python_path, "COLUMNS": "120"}


def _commands(block: re.Match[str]) -> list[str]:
    return re.findall(r"^\$ (.*)$", block[3], re.MULTILINE)


def printed_in(text: str) -> list[str]:
    """Return what the README says that the commands of the quickstart print."""
    blocks = [block for block in BLOCK.finditer(text) if block[1] == QUICKSTART]
    return [
        part.partition("\n")[2]
        for block in blocks
        if block[2] == "console"
        for part in re.split(r"^\$ ", block[3], flags=re.MULTILINE)[1:]
    ]


def _renewed(block: re.Match[str], printed: Iterator[str]) -> str:
    """Return a block with what its commands print."""
    commands = _commands(block)
    if not commands:
        return block[0]
    lines = "".join(f"$ {command}\n{next(printed)}" for command in commands)
    return f"{block[1] or ''}```{block[2]}\n{lines}```\n"


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(Path(sys.argv[1]).resolve())
    else:
        with tempfile.TemporaryDirectory() as made:
            main(Path(made))
