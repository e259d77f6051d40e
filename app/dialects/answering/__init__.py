"""Shared parts of the client formats: ids, errors, signatures, parts of requests."""
