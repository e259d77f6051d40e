"""Seseragi: a relay between LLM APIs and browsers."""

__version__ = "0.1.0"
