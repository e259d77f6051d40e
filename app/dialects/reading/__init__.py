"""Shared parts of the parsers of all upstream formats."""
