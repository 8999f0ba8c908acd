"""`icectl doctor`: what this machine has, and which catalogs and stores can be reached."""
