"""The processes of the runs, one after the other, and what their answers add up to."""
