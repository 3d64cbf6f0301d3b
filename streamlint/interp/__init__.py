"""The abstract interpreter: IR and models in, traces out."""
