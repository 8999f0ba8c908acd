"""Rules of the upstream draft, looked for in roots and leaves. Start with manifests.py."""
