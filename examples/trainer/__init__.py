"""Pieces of a training loop that overlap copies, reductions and compute."""
