"""Shared parts of the request builders of all upstream formats."""
