"""`icectl upgrade-to-v3`: turn a table of version 1 or 2 into a version 3 table."""
