"""Wire formats: one module a format, both directions that it supports."""
