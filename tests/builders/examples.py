"""How many examples a property has."""

from hypothesis import settings


def examples(quick: int, full: int) -> settings:
    """Settings of a property whose examples take long, by the tier."""
    return settings(max_examples=quick if settings.get_current_profile_name() == "quick" else full)
