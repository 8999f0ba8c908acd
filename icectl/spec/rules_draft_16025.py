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
    Rule("V4-203", "bitmaps over a leaf name rows that it has", _SECTION, "error", _EXPORT),
    Rule("V4-204", "what a commit deleted or replaced in a leaf is dead there", _SECTION, "error",
         _EXPORT),
    Rule("V4-205", "entries of manifests have `manifest_info`, and no others", _SECTION, "error",
         _EXPORT),
    Rule("V4-206", "leaves name no manifests, and only files of their content", _SECTION, "error",
         _EXPORT),
    Rule("V4-207", "only data files have a deletion vector, and only equality deletes their ids",
         _SECTION, "error", _EXPORT),
    Rule("V4-208", "entries that are not new have their sequence numbers", _SECTION, "error",
         _EXPORT),
    Rule("V4-209", "`manifest_info` counts what the leaf has", _SECTION, "error", _EXPORT),
    Rule("V4-210", "every live file of the draft is live once", _SECTION, "error", _EXPORT),
    Rule("V4-211", "leaves of the draft are there, with their sizes", _SECTION, "error", _EXPORT),
)
# fmt: on
"""Every rule of the draft that icectl checks."""
