"""The list of rules and incidents in tests/README.md names tests that are there."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
RULES = set(range(1, 41))
INCIDENTS = {*range(1, 11), *range(12, 18), 19, 20, 22, 23, 24}


def test_every_rule_and_incident_has_tests_that_exist() -> None:
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
