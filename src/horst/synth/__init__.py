"""Data sets that the package renders by itself, in numpy alone."""
