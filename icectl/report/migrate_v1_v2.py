"""What `icectl migrate-v1-v2` tells beside what every upgrade does."""

TO_KNOW = (
    "this cannot be undone: no engine takes a table back to version 1",
    "readers that know version 1 only can no longer read the table",
    "the old metadata file stays, and manifests of version 1 stay valid",
)
"""What to know before the migration."""
