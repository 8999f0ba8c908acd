"""Manifests of the upstream draft of version 4 (pull request 16025).

Start with manifest.py, which reads and writes roots and leaves.
"""
