"""Webhooks: a signed POST to each configured endpoint when a stream has ended."""
