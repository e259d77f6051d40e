"""AG-UI 1.0, a protocol between agents and their front ends."""
