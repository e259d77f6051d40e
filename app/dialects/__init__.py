"""Wire formats: one package per format, with a folder for each direction."""
