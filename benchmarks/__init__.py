"""Side-by-side timings; a number is printed only after the same code passed its parity check."""
