"""One entry for each rule of the format: its statement, severity, next step and search."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from icectl.errors import CorruptTable
from icectl.format.rule import Fault, Severity


class Subject(Protocol):
    """An object that rules are checked on; `subject` names it in findings."""

    @property
    def subject(self) -> str:
        """The name of the object in findings."""


S = TypeVar("S", bound=Subject)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: which rule, where, what is wrong, what to do.

    Severity: error = wrong rows, unreadable or unsafe to maintain; warning = wrong but harmless;
    info = worth knowing. `is_unread` if the subject is a file that cannot be read.
    """

    rule: str
    severity: Severity
    subject: str
    message: str
    hint: str
    is_unread: bool = False

    def json(self) -> dict[str, str]:
        """Return the members that documents have."""
        return {
            "rule": self.rule,
            "severity": self.severity,
            "subject": self.subject,
            "message": self.message,
            "hint": self.hint,
        }


@dataclass(frozen=True, slots=True)
class Breach:
    """A breach of a rule; None stands for the object checked, and for what the rule says."""

    message: str
    subject: str | None = None
    severity: Severity | None = None
    hint: str | None = None
    is_unread: bool = False


@dataclass(frozen=True, slots=True)
class Check(Generic[S]):
    """The search for breaches in objects of one kind."""

    kind: type[S]
    search: Callable[[S], Iterable[Breach]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the format.

    `id` never changes its meaning. `fix` is the next step if the rule is broken. A rule
    without `checks` is kept by code elsewhere, unless `not_enforced` says why there is none.
    """

    id: str
    title: str
    section: str
    severity: Severity
    fix: str
    checks: tuple[Check[Any], ...] = ()
    not_enforced: str | None = None

    def finding(self, subject: str, breach: Breach) -> Finding:
        """Return a breach as a finding on an object."""
        return Finding(
            self.id,
            breach.severity or self.severity,
            breach.subject or subject,
            breach.message,
            breach.hint or self.fix,
            breach.is_unread,
        )


def rule(
    id_: str,
    title: str,
    section: str,
    severity: Severity,
    fix: str,
    *checks: Check[Any],
    not_enforced: str | None = None,
) -> Rule:
    """Return a rule as an entry of a table: its checks stand at the end."""
    return Rule(id_, title, section, severity, fix, checks, not_enforced)


# -- shapes of rules ------------------------------------------------------------------------------


def of_object(
    kind: type[S],
    what: str,
    wrong: Callable[[S], bool],
    severity: Severity | None = None,
    *,
    subject: str | None = None,
) -> Check[S]:
    """Check an object as a whole; `what` is formatted with it as `one`."""

    def search(of: S) -> Iterator[Breach]:
        if wrong(of):
            yield Breach(what.format(one=of), subject, severity)

    return Check(kind, search)


def at_most_once(
    kind: type[S], what: str, groups: Callable[[S], Iterable[tuple[str | None, Iterable[object]]]]
) -> Check[S]:
    """Check that no value comes again in a group, which stands behind its subject.

    `what` is formatted with `value` and `times`, the subject with `value`; None is the object.
    """

    def search(of: S) -> Iterator[Breach]:
        for subject, values in groups(of):
            for value, times in Counter(values).items():
                if times > 1:
                    message = what.format(value=value, times=times)
                    yield Breach(message, subject and subject.format(value=value))

    return Check(kind, search)


def other_names(
    place: str, stored: Mapping[str, str], expected: Mapping[str, object]
) -> Iterator[Breach]:
    """Yield what the header or footer of a file says otherwise than its snapshot does."""
    for name, value in expected.items():
        said = stored.get(name)
        if said is not None and said != str(value):
            yield Breach(f"its {place} says `{name}` {said}, the snapshot {value}")


def other_counters(stated: Mapping[str, str], counters: Mapping[str, int]) -> Iterator[Breach]:
    """Yield which counters of a summary are not what was counted, where it states them."""
    differing = [
        f"{name} is {stated[name]}, not {count}"
        for name, count in counters.items()
        if name in stated and stated[name] != str(count)
    ]
    if differing:
        yield Breach(f"in its summary {'; '.join(differing)}")


def located(
    subject: str, fault: Fault | None, what: str, severity: Severity | None = None
) -> Iterator[Breach]:
    """Yield one breach for all entries that have the same thing wrong, where there are any."""
    if fault is not None:
        where = "it" if fault.location == subject else f"`{fault.location}`"
        more = f", and {fault.count - 1:,} more" if fault.count > 1 else ""
        yield Breach(f"{where} {what}{more}", severity=severity)


def refuse(findings: Iterable[Finding]) -> None:
    """Raise the first error among findings. Raises: CorruptTable."""
    for finding in findings:
        if finding.severity == "error":
            subject = f"`{finding.subject}`" if "/" in finding.subject else finding.subject
            message = f"{subject}: {finding.message}"
            location = finding.subject if "/" in finding.subject else None
            raise CorruptTable(message, rule=finding.rule, hint=finding.hint, location=location)


class RuleSet:
    """Rules, and the one walk that checks an object against them in their order."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self.by_id = {rule.id: rule for rule in rules}
        self._checks: dict[type, list[tuple[Rule, Check[Any]]]] = {}

    def findings(self, of: Subject, only: Collection[str] | None = None) -> Iterator[Finding]:
        """Check an object against the rules of its kind, or `only` some, in their order."""
        kind = type(of)
        if kind not in self._checks:
            self._checks[kind] = [
                (rule, check)
                for rule in self.by_id.values()
                for check in rule.checks
                if check.kind in kind.__mro__
            ]
        for rule, check in self._checks[kind]:
            if only is None or rule.id in only:
                for breach in check.search(of):
                    yield rule.finding(of.subject, breach)
