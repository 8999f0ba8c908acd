"""`icectl maintain`: the steps that many tables need, by a policy."""
