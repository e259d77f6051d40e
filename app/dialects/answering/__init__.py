"""Shared parts of the client formats: ids, errors, assistant messages, parts of requests."""
