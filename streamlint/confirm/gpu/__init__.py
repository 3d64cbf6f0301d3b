"""The CUDA driver by ctypes, stream handles of all libraries, and the gate; standard library only."""
