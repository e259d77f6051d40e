"""Upstream side: requests to and responses from providers."""
