"""A simulator of whole relays: one process, virtual time, and a seed that draws all that happens.

`python -m tests.simulation --seed N` repeats a run; README.md says what is simulated.
"""
