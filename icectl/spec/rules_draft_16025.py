"""Rules of the upstream draft of version 4: its roots and leaves, as files that are read alone."""

from icectl.spec.rule import Rule

_EXPORT = "write the form anew: `icectl upgrade-to-v4 TABLE --layout draft-16025 --to FOLDER`"
_SECTION = "Draft 16025"

# fmt: off
DRAFT_RULES = (
    Rule("V4-200", "a manifest of the draft has its required columns, of their types", _SECTION,
         "error", _EXPORT),
    Rule("V4-201", "statuses and content types are those of the draft", _SECTION, "error", _EXPORT),
    Rule("V4-202", "a Mumbling bitmap can be decoded", _SECTION, "error", _EXPORT),
    Rule("V4-208", "entries that are not new have their sequence numbers", _SECTION, "error",
         _EXPORT),
)
# fmt: on
"""Every rule of the draft that icectl checks."""
