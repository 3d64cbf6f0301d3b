from .correlation import correlate
from .launch import kernel

__all__ = ["correlate", "kernel"]
