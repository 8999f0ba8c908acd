"""`icectl inspect`: what a table is, what it holds and what it needs."""
