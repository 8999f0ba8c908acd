"""The list of rules and incidents in tests/README.md names tests that are there."""

import json
import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
RULES = set(range(1, 41))
INCIDENTS = {*range(1, 11), *range(12, 18), 19, 20, 22, 23, 24}


def test_every_rule_and_incident_has_tests_that_exist():
    text = (TESTS / "README.md").read_text()
    found = re.findall(r"^\| (rule|incident) (\d+) \|.*\| (.*) \|$", text, re.MULTILINE)
    numbers = [(kind, int(number)) for kind, number, _ in found]
    assert numbers == [("rule", n) for n in sorted(RULES)] + [
        ("incident", n) for n in sorted(INCIDENTS)
    ]
    for _, _, cell in found:
        for name in re.findall(r"`([^`]+)`", cell):
            file, _, test = name.partition("::")
            assert f"def {test}(" in (TESTS / file).read_text(), name


def test_the_tests_that_the_page_on_the_proposal_names_are_there():
    text = (TESTS.parent / "docs" / "proposal.md").read_text("utf-8")
    named = re.findall(r"`([^`\s]+\.py)::(\w+)`", text)
    assert len(named) > 30
    missing = [
        f"{file}::{test}"
        for file, test in named
        if f"def {test}(" not in (TESTS / file).read_text("utf-8")
    ]
    assert missing == []
    scenarios = json.loads((TESTS / "golden" / "v4" / "scenarios.json").read_text("utf-8"))
    assert set(re.findall(r"\bSC-\d\dw?\b", text)) <= set(scenarios)
