"""`icectl apply`: carry out a saved plan."""
