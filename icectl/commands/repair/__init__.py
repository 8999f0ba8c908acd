"""`icectl repair`: set a broken table right where what is right can be proved."""
