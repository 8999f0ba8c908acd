"""`icectl expire-snapshots`: drop old snapshots and the files that only they need."""
