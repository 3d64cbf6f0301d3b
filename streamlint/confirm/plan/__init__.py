"""What to run and which pair of statements to test, from findings or from what the user names."""
