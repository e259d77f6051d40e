"""Generations: started, run, read and stopped."""
