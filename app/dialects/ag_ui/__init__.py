"""AG-UI 1.0, which agents' front ends read."""
