"""The manual and the completions: fresh, complete, and accepted by the programs that read them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from icectl.cli.registry import COMMANDS, DOCUMENTATION, load_command
from icectl.cli.settings import ENV_VARS, SETTINGS, resolve
from icectl.commands.inspect.views import VIEWS
from icectl.errors import EXIT_CODES
from tests.generate import docs

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return dict(docs.pages())


def plain(page: str) -> str:
    """The words of a manual page, without troff's marks."""
    text = re.sub(r"\\f[BIR]", "", page).replace(r"\-", "-").replace(r"\(aq", "'")
    return text.replace(r"\&", "").replace(r"\e", "\\")


def test_generated_files_are_fresh(capsys):
    assert docs.main(["--check"], ROOT) == 0
    assert capsys.readouterr().out == ""


def test_check_names_stale_files_and_writing_makes_them_fresh(tmp_path, capsys):
    assert docs.main(["--check"], tmp_path) == 1
    assert "stale: man/icectl.1\n" in capsys.readouterr().out
    assert not (tmp_path / "icectl").exists()
    assert docs.main([], tmp_path) == 0
    assert "written: man/icectl.1\n" in capsys.readouterr().out
    assert docs.main(["--check"], tmp_path) == 0


def test_there_is_nothing_but_what_is_generated(pages):
    there = {
        str(path.relative_to(ROOT))
        for folder in ("man", "completions")
        for path in (ROOT / folder).iterdir()
    }
    assert there | {"docs/rules.md", "docs/settings.md", "docs/run.svg"} == set(pages)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_a_page_with_its_options(pages, name):
    page = plain(pages[f"man/icectl-{name}.1"])
    for parameter in docs.parameters_of(load_command(name)):
        for word in parameter.opts:
            assert word in {"-h", "--help", *re.findall(r"--?[a-z][a-z-]*", page)} or (
                parameter.param_type_name == "argument"
            )
    assert f"icectl-{name}(1)" in plain(pages["man/icectl.1"])


def test_the_manual_lists_every_exit_code_and_variable(pages):
    page = plain(pages["man/icectl.1"])
    for code, meaning in EXIT_CODES.items():
        assert f"\n.TP\n{code}\n{plain(docs.roff(meaning))}\n" in page
    for name in ENV_VARS:
        assert f"\n.TP\n{name}\n" in page


def test_every_variable_that_the_code_names_is_in_the_manual():
    named = {
        name
        for path in (ROOT / "icectl").rglob("*.py")
        for name in re.findall(r"\bICECTL_[A-Z_]+\b", path.read_text())
    }
    assert named <= set(ENV_VARS)


def test_every_setting_is_in_its_page(pages):
    page = plain(pages["man/icectl.toml.5"])
    for setting in SETTINGS:
        section, _, name = setting.key.rpartition(".")
        part = page.partition(f"[{section}]" if section else "KEYS AT THE TOP")[2]
        assert f"\n{name} = {setting.metavar}\n" in part.partition("\n.SH")[0]
        assert setting.variable in page


def test_the_example_of_the_settings_page_is_accepted(pages, tmp_path):
    example = plain(pages["man/icectl.toml.5"]).partition(".SH EXAMPLE\n.nf\n")[2]
    file = tmp_path / "icectl.toml"
    file.write_text(example.partition("\n.fi")[0])
    assert resolve({}, {}, str(file)).storage_options["secret"] == "env:MINIO_SECRET"


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_groff_has_no_complaints(pages):
    for name, page in pages.items():
        if name.startswith("man/"):
            ended = subprocess.run(
                ["groff", "-man", "-Tascii", "-ww", "-z"],
                input=page,
                capture_output=True,
                text=True,
                check=True,
            )
            assert ended.stderr == "", name


@pytest.mark.parametrize(
    ("shell", "file"), [("bash", "icectl.bash"), ("zsh", "_icectl"), ("fish", "icectl.fish")]
)
def test_the_shells_accept_their_scripts(shell, file):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    ended = subprocess.run(
        [shell, "-n", str(ROOT / "completions" / file)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def test_the_views_that_completion_knows_are_those_that_exist():
    assert load_command("inspect").choices["view"] == tuple(VIEWS)


def bash_completes(*words: str) -> list[str]:
    script = (
        f"source {ROOT}/completions/icectl.bash; compopt() {{ :; }}\n"
        'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _icectl; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    ended = subprocess.run(
        ["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True
    )
    assert ended.stderr == ""
    return ended.stdout.split()


def test_bash_completes_commands_options_values_and_views():
    documents = ["schema", "completion", "man", "help"]
    first = [*COMMANDS, *documents, "--help", "--version", "--spark-script"]
    assert bash_completes("icectl", "") == first
    assert bash_completes("icectl", "schema", "insp") == ["inspect"]
    assert bash_completes("icectl", "completion", "z") == ["zsh"]
    assert bash_completes("icectl", "man", "maint") == ["maintain", "maintain.toml"]
    assert bash_completes("icectl", "help", "com") == ["compact", "completion"]
    assert bash_completes("icectl", "inspect", "/t", "--color", "=") == ["auto", "always", "never"]
    assert bash_completes("icectl", "inspect", "/t", "--color", "=", "a") == ["auto", "always"]
    assert bash_completes("icectl", "insp") == ["inspect"]
    assert bash_completes("icectl", "inspect", "/t", "--met") == ["--metrics-file"]
    assert bash_completes("icectl", "inspect", "/t", "--color", "a") == ["auto", "always"]
    assert bash_completes("icectl", "inspect", "/t", "--concurrency", "") == []
    assert bash_completes("icectl", "inspect", "/t", "snap") == ["snapshots"]
    assert bash_completes("icectl", "inspect", f"{ROOT}/pyproj") == [f"{ROOT}/pyproject.toml"]


def test_powershell_asks_for_the_names_that_bash_asks_for():
    bash = (ROOT / "completions" / "icectl.bash").read_text()
    power = (ROOT / "completions" / "icectl.ps1").read_text()
    in_bash = [found.split("|") for found in re.findall(r"(\S+)\) asks=", bash)]
    in_power = re.findall(r"\$asked = @\(('.*)\)", power)
    assert [[word.strip("'") for word in found.split(", ")] for found in in_power] == in_bash
    assert len(in_bash) == len(COMMANDS)
    assert "icectl __complete @before $last" in power


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_options_and_views(tmp_path):
    def completes(line: str) -> list[str]:
        script = f"source {ROOT}/completions/icectl.fish; complete -C '{line}'"
        ended = subprocess.run(
            ["fish", "--no-config", "-c", script],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
        )
        return [found.partition("\t")[0] for found in ended.stdout.splitlines()]

    assert sorted(completes("icectl ")) == sorted([*COMMANDS, *DOCUMENTATION, "help"])
    assert completes("icectl completion z") == ["zsh"]
    assert completes("icectl inspect /t --color a") == ["always", "auto"]
    assert completes("icectl inspect /t snap") == ["snapshots"]
    assert completes("icectl inspect /t --metr") == ["--metrics-file"]
