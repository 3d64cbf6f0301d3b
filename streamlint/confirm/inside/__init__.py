"""What runs in the user's process beside the program; standard library only."""
