"""A small software renderer in numpy."""
