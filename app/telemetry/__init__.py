"""Logs, metrics and traces. Prompts, answers and keys never appear in logs or metrics."""
