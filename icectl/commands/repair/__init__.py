"""`icectl repair`: repair a broken table, as far as can be proved."""
