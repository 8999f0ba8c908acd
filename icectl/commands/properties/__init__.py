"""`icectl properties`: show and change the properties of a table."""
