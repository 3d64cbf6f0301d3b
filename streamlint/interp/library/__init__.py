"""What the effects of the libraries' rows do: to memory, streams, graphs, threads and callbacks."""
