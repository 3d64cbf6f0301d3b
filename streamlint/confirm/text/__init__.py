"""The text of a program with probes in it, in memory; standard library only."""
