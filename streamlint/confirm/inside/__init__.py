"""What runs in the user's process beside the program, at its driver calls; standard library only."""
