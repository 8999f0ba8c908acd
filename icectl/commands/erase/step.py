"""What `icectl erase` would do to a table for the keys of a policy, or of the settings."""

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from icectl.cli.options import read_options
from icectl.cli.settings import ERASE_DEADLINE, ERASE_KEYS, Settings
from icectl.commands.erase.options import EraseRequest
from icectl.commands.sight import Sight
from icectl.commands.steps import HealthCheck, Judgement, Limit, Measure, Step, first_error
from icectl.errors import CorruptTable, UsageError
from icectl.units import parse_duration, print_count

if TYPE_CHECKING:  # few tables have keys
    from icectl.commands.erase.parsed_options import EraseOptions
    from icectl.commands.matching import Matches, MatchSearch

COMMAND, _EXPIRY = "erase", "expire-snapshots"

_LIMIT = Limit(
    "overdue-files",
    "files with keys past their deadline",
    "erase keys if N files or more hold keys past their deadline",
)


@dataclass(frozen=True, slots=True)
class ErasureFigures:
    """The files that hold rows with a key, and those that hold one past its `deadline`.

    Unless it `is_exact`, they may hold one, as far as bounds show. `problem` is why it is not
    known which rows are to go, `unfinished` what of an erasure is left though no manifest tells.
    """

    key_count: int | None = None
    file_count: int = 0
    overdue_file_count: int = 0
    deadline: str = ""
    is_exact: bool = True
    problem: str = ""
    unfinished: str = ""


def plan(sight: Sight, request: EraseRequest) -> Judgement:
    """Look for rows with a key: by manifests, and in the files where the sight is exact.

    Keys that can't be read are work, whatever the limit: the run of the command tells of them.
    """
    if sight.settings.read(ERASE_KEYS) is None:
        return Judgement(ErasureFigures())
    from icectl.commands.erase.keys import NoKeys
    from icectl.table.guard import check_deletable  # few tables have such keys

    context, loaded = sight.reader.context, sight.reader.loaded
    error = first_error(
        sight.check_base,
        sight.check_files,
        lambda: check_deletable(context.catalog, loaded, sight.now_ms),
    )
    if isinstance(error, CorruptTable):
        return Judgement(ErasureFigures(), error=error)
    try:
        with ExitStack() as files:
            figures, refusal = _looked(sight, request, files)
    except NoKeys:
        return Judgement(ErasureFigures(0))
    except UsageError as problem:
        figures = ErasureFigures(problem=problem.message)
        return Judgement(figures, (Measure(_LIMIT.name, inf, problem.message),))
    if figures.unfinished:
        measures = (Measure(_LIMIT.name, inf, figures.unfinished),)
        return Judgement(figures, measures, error=error)
    if not figures.file_count:
        return Judgement(figures)
    measure = Measure(_LIMIT.name, figures.overdue_file_count, _found(figures))
    return Judgement(figures, (measure,), error=error or refusal)


def _looked(sight: Sight, request: EraseRequest, files: ExitStack) -> tuple[ErasureFigures, Any]:
    """Return what is found, and the refusal of the command, if it would end with one."""
    from icectl.commands.erase.parsed_options import options_of
    from icectl.commands.erase.run import planned, sift
    from icectl.commands.matching import MatchSearch
    from icectl.commands.rows.deletion import ThreadFinder
    from icectl.table.live_files import with_dropped_columns

    # With gaps, what is left out might hold a key, and other checks would count it as theirs.
    reader, settings = replace(sight.reader, gaps=None), sight.settings
    options = options_of(request, settings, sight.now_ms, files, sight.other)
    unfinished, sifting = "", sift(reader, options)
    if sight.is_exact:
        found = planned(sifting, ThreadFinder(reader.context), options)
        count, refusal = len(found.found.files) + len(found.found.unread), found.refusal
    else:
        search = sifting.search
        count, refusal = search.count_sifted(reader, sifting.sifted), None
        if not count:
            found_none = search.look(reader, sifting.sifted)
            unfinished = _unfinished(sight, search, found_none, options)
    deadline_ms = settings.read_as(ERASE_DEADLINE, parse_duration) or 0
    overdue = None
    if count and options.keys is not None:
        metadata = with_dropped_columns(sight.metadata)
        overdue = options.keys.overdue(metadata, sight.now_ms - deadline_ms, files)
    overdue_count = 0
    if overdue is not None:
        search = MatchSearch(overdue, deleted_files=True)
        overdue_count = (
            len(search.look(reader).files)
            if sight.is_exact
            else search.count_sifted(reader, search.sift(reader))
        )
    figures = ErasureFigures(
        sifting.sought.key_count,
        count,
        overdue_count,
        settings.read(ERASE_DEADLINE),
        sight.is_exact,
        unfinished=unfinished,
    )
    return figures, refusal


def _unfinished(
    sight: Sight, search: "MatchSearch", found: "Matches", options: "EraseOptions"
) -> str:
    """Say what is left of an erasure in files that no manifest names; empty without any.

    Cost: a listing of the table's location, and the rows of such files.
    """
    from icectl.commands.erase.proof import unnamed_matches
    from icectl.commit.deletion import unfinished_journals

    context = sight.reader.context
    if options.expires and unfinished_journals(
        context.store, sight.listed, _EXPIRY, context.progress
    ):
        return "an earlier run has not deleted all files of the snapshots that it expired"
    count = len(unnamed_matches(sight.reader, search, found, options.quarantine))
    files = print_count(count, "file")
    return f"{files} that no snapshot names may hold rows with a key" if count else ""


def _found(figures: ErasureFigures) -> str:
    if figures.problem:
        return f"it is not known which rows are to be erased: {figures.problem}"
    if figures.key_count is None:
        return "no keys to erase; `erase.keys` names a file of them"
    keys, files = print_count(figures.key_count, "key"), print_count(figures.file_count, "file")
    if not figures.file_count:
        return f"no file holds a row with one of {keys}"
    text = f"{files} {_hold(figures.file_count, figures)} rows with one of {keys}"
    if overdue := figures.overdue_file_count:
        text += (
            f"; {overdue:,} {_hold(overdue, figures)} one that was asked for "
            f"more than {figures.deadline} ago"
        )
    return text


def _hold(count: int, figures: ErasureFigures) -> str:
    if not figures.is_exact:
        return "may hold"
    return "holds" if count == 1 else "hold"


def _members(figures: ErasureFigures) -> Mapping[str, object]:
    return {
        "key_count": figures.key_count,
        "matching_file_count": figures.file_count,
        "overdue_file_count": figures.overdue_file_count,
        "deadline": figures.deadline or None,
        "problem": figures.problem or None,
    }


def _read(settings: Settings, now_ms: int, request: EraseRequest) -> object:
    """Read the options before any table is. Raises: UsageError."""
    if settings.read(ERASE_KEYS) is None:
        return read_options(request)
    from icectl.commands.erase.parsed_options import options_of

    settings.read_as(ERASE_DEADLINE, parse_duration)
    return options_of(request, settings, now_ms)


STEP: Step = Step(
    COMMAND,
    EraseRequest,
    _read,
    plan,
    ErasureFigures(),
    (_LIMIT,),
    (HealthCheck("erasures", "keys to erase", (_LIMIT.name,), _found, _members),),
    deletes=True,
    is_owed=True,
    not_in_policies={"where": None, "verify": None, "report": None, "sign-key": None},
)
