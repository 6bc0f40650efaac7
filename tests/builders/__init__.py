"""Builders of the frozen types, with sensible defaults for what a test does not care about."""
