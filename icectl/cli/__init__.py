"""The command line: parses, asks and exits; everything else is below it. Start at app.py."""
