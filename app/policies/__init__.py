"""Policies of generations: which target, when to retry, how long to wait, whom to admit.

Pure: no I/O and no clock. The time and chance are arguments.
"""
