"""`icectl validate`: check a table against the rules of the format."""
