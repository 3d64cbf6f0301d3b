"""Finds missing stream ordering in Python GPU code, without running it."""

__version__ = "0.1.0"
