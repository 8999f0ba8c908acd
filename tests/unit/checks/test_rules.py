"""Every rule of the format is kept by code and pinned by a test, or says why not."""

import re
from pathlib import Path

import pytest

from icectl.sfc1.rules import EVERY_RULE as RULES

ROOT = Path(__file__).resolve().parents[3]
CITED = re.compile(r"(?<!rule\(\")\b(R|V4)-(\d{3})\b")
"""An id, but for that of an entry."""
PINNED = re.compile(r"(?:\b|(?<=_))(r|v4_)(\d{3})(?=_)|\b(R|V4)-(\d{3})\b")
EVERY_RULE = pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.id)

NOT_PINNED = {"R-098"}  # codec of manifests
"""Rules that code cites and no test names yet. The list only ever gets shorter."""


def cited_in_code() -> set[str]:
    files = (ROOT / "icectl").rglob("*.py")
    cited = {"-".join(found) for file in files for found in CITED.findall(file.read_text())}
    return cited | {id_ for id_, rule in RULES.items() if rule.checks}


def pinned_by_tests() -> set[str]:
    files = (file for file in (ROOT / "tests").rglob("*.py") if file != Path(__file__))
    found = (match for file in files for match in PINNED.findall(file.read_text()))
    return {f"{_KINDS.get(short, kind)}-{name or id_}" for short, name, kind, id_ in found}


_KINDS = {"r": "R", "v4_": "V4"}


def test_ids_are_unique_and_in_order():
    ids = list(RULES)
    assert ids == sorted(ids)
    assert len(ids) == 289
    assert all(rule.id == id_ for id_, rule in RULES.items())


@EVERY_RULE
def test_a_rule_reads_well_to_an_operator(rule):
    assert re.fullmatch(r"(R|V4)-\d{3}", rule.id)
    for text in (rule.title, rule.fix, rule.not_enforced or "none"):
        assert text == text.strip()
        assert not text.endswith((".", ","))
        first = text.split()[0]
        assert first[0].islower() or first[0] in "`-" or first.isupper() or first == "NaN"
    assert len(rule.title) <= 90
    assert rule.severity in ("error", "warning", "info")


@EVERY_RULE
def test_commands_that_a_fix_names_exist(rule):
    commands = {
        "inspect", "validate", "expire-snapshots", "rewrite-manifests", "compact",
        "remove-orphans", "migrate-v1-v2", "upgrade-to-v4", "repair", "refs",
    }  # fmt: skip
    assert set(re.findall(r"`icectl ([a-z0-9-]+)", rule.fix)) <= commands


def test_every_id_that_code_and_tests_cite_exists():
    assert cited_in_code() | pinned_by_tests() <= RULES.keys()


def test_every_rule_is_cited_in_code_or_says_why_not():
    unexplained = {id_ for id_, rule in RULES.items() if rule.not_enforced is None}
    assert unexplained - cited_in_code() == set()


def test_every_rule_that_code_cites_is_pinned_by_a_test():
    assert cited_in_code() - pinned_by_tests() - NOT_PINNED == set()


def test_rules_that_are_not_enforced_are_not_cited_as_if_they_were():
    excused = {id_ for id_, rule in RULES.items() if rule.not_enforced is not None}
    assert excused & cited_in_code() == set()
