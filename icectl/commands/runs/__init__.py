"""`icectl runs`: what earlier runs of maintenance did."""
