"""Deployed policies: how they act, how they differ from each other, and their identity."""
