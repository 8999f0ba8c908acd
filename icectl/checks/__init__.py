"""The rules of the format and the search for what breaks them: pure. Start at rule.py."""
