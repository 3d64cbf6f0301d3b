"""The same program told differently: what is found in it should stay (``python -m benchmarks.rewrites``)."""
