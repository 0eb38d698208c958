"""Data sets: annotations of many kinds, read into one form; clips of them, decoded on demand; and two made here."""
