"""`icectl migrate-v1-v2`: turn a version 1 table into a version 2 table."""
