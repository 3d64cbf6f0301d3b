"""Happens-before over a trace, and the pairs that it leaves unordered."""
