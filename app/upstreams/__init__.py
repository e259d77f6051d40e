"""Providers: where they are, which of them answers, and how a call goes."""
