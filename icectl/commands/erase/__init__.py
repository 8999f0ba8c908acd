"""`icectl erase`: rows that must be gone go everywhere, and that is looked at again."""
