"""Which metadata file is current, and replacing it; protocol.py and files.py are where to start."""
