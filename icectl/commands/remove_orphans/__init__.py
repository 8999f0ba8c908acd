"""`icectl remove-orphans`: delete or move files that the table does not refer to."""
