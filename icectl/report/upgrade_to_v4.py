"""What `icectl upgrade-to-v4` tells beside what every upgrade does."""

from icectl.plan.upgrade_to_v4 import Mode

_ALWAYS = (
    "version 4 is a proposal, not an adopted format: today icectl alone reads it as it is here",
    "no other engine can read or write the table any more",
    "the old metadata file stays, and manifests of older versions stay valid",
)
_BACK = (
    "until the next commit there is a way back: remove the new metadata file by hand,",
    "and set the number in `version-hint.text` back by one",
)
_NO_BACK = ("this cannot be undone",)


def to_know(mode: Mode) -> tuple[str, ...]:
    """What to know before the upgrade."""
    return (*_ALWAYS, *(_BACK if mode == "lazy" else _NO_BACK))
