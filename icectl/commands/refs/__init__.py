"""`icectl refs`: show and change the branches and tags of a table."""
