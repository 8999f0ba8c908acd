"""Help: golden pages, narrow enough, with exit codes and examples that parse."""

import shlex
from pathlib import Path

import pytest

from icectl.cli import app
from icectl.cli.help import is_flag
from icectl.errors import EXIT_CODES
from tests.generate.docs import parameters_of

GOLDEN = Path(__file__).parents[1] / "golden" / "help"

PAGES = {"icectl": ["--help"], **{name: [name, "--help"] for name in app.COMMANDS}}


@pytest.mark.parametrize("page", PAGES)
def test_help_is_the_golden_page(run, page, request):
    ended = run(*PAGES[page])
    assert (ended.code, ended.err) == (0, "")
    golden = GOLDEN / f"{page}.txt"
    if request.config.getoption("--update-golden"):
        golden.write_text(ended.out)
    assert ended.out == golden.read_text()


@pytest.mark.parametrize("page", PAGES)
def test_help_fits_80_columns_and_is_ascii(run, page):
    out = run(*PAGES[page]).out
    assert max(map(len, out.splitlines())) < 80
    assert out.isascii()


@pytest.mark.parametrize("name", app.COMMANDS)
def test_help_of_a_command_fits_a_screen_with_a_sentence_and_three_examples(run, name):
    page = run(name, "--help").out
    assert len(page.splitlines()) <= (48 if name == "compact" else 55)  # about twice 24 lines
    _, summary, examples, *_ = page.split("\n\n")
    assert summary.count(". ") == 0
    assert summary.endswith(".")
    assert examples.startswith("Examples:\n")
    assert 2 <= sum(line.startswith("  $ icectl ") for line in examples.splitlines()) <= 3
    for parameter in parameters_of(app.load_command(name)):
        if parameter.name == "help":
            continue
        assert all(word in page for word in parameter.opts if word.startswith("--"))


def test_help_of_a_command_is_asked_for_in_three_ways(run):
    page = run("inspect", "--help").out
    assert run("inspect", "-h").out == page
    assert run("help", "inspect").out == page
    assert run("inspect", "/t", "--json", "--help").out == page
    assert run("help").out == run("--help").out


@pytest.mark.parametrize("name", app.COMMANDS)
def test_the_root_lists_each_command_with_its_line(run, name):
    lines = run("--help").out.splitlines()
    assert f"  {name.ljust(19)}{app.COMMANDS[name]}" in lines


@pytest.mark.parametrize("name", app.COMMANDS)
def test_help_lists_the_exit_codes_that_the_command_can_give(run, name):
    command = app.load_command(name)
    page = run(name, "--help").out
    assert set(command.exit_codes) <= set(EXIT_CODES)
    assert {0, 1, 2, 130, 143} <= set(command.exit_codes)
    section = page.partition(f"Exit status (more: `icectl man {name}`): ")[2]
    listed = [entry.split()[0] for entry in " ".join(section.split()).split(", ")]
    assert listed == [str(code) for code in command.exit_codes]


@pytest.mark.parametrize("name", app.COMMANDS)
def test_help_has_two_examples_and_they_parse(name):
    command = app.load_command(name)
    assert len(command.examples) >= 2
    for line, purpose in command.examples:
        program, *words = shlex.split(line)
        assert program == "icectl"
        invocation = app.parse(words)
        assert invocation is not None
        assert invocation.command.name == name
        assert purpose
        assert len(f"  $ {line}") < 80


FORMER = [
    (name, former, today)
    for name in app.COMMANDS
    for former, today in app.load_command(name).former_options.items()
]


@pytest.mark.parametrize(("name", "former", "today"), FORMER)
def test_a_former_name_of_an_option_is_read_and_stands_in_no_help(run, name, former, today):
    (parameter,) = [one for one in parameters_of(app.load_command(name)) if today in one.opts]
    value = () if is_flag(parameter) else ("7",)
    expected = app.parse([name, "t", today, *value])
    assert app.parse([name, "t", former, *value]) == expected
    if value:
        assert app.parse([name, "t", f"{former}=7"]) == expected
    assert former not in run(name, "--help").out
    assert run(name, "--", former).err.startswith(("error: no Iceberg table", "error: there is no"))


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_parameter_is_explained_in_the_house_voice(name):
    for parameter in parameters_of(app.load_command(name)):
        if parameter.name == "help":
            continue
        text = parameter.help or ""
        assert text, parameter.name
        assert not text.endswith("."), text
        assert not text[0].isupper() or text.split()[0].isupper(), text
        if parameter.param_type_name == "option" and not is_flag(parameter):
            assert parameter.metavar, parameter.name


@pytest.mark.parametrize("name", app.COMMANDS)
def test_every_command_takes_the_common_options(name):
    options = {word for entry in parameters_of(app.load_command(name)) for word in entry.opts}
    assert {
        "--concurrency", "--time-limit", "--temp-dir", "--json", "-q", "--quiet", "-v",
        "--verbose", "--color", "--no-progress", "--no-pager", "--config", "--catalog",
        "--storage-option", "--path-map", "--path-map-file", "--metrics-file",
    } <= options  # fmt: skip


@pytest.mark.parametrize(
    "name", sorted({*app.COMMANDS} - {"inspect", "validate", "maintain", "runs", "apply", "doctor"})
)
def test_every_command_that_changes_a_table_takes_the_options_of_a_change(name):
    options = {word for entry in parameters_of(app.load_command(name)) for word in entry.opts}
    assert {
        "-n", "--dry-run", "--check", "-y", "--yes", "--metadata-file", "--deleted-list",
        "--skip-if-busy", "--save-plan",
    } <= options  # fmt: skip
