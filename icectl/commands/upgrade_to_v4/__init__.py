"""`icectl upgrade-to-v4`: turn a table into one of version 4, or of another layout of it."""
