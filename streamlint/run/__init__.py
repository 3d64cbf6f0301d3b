"""One run: find the files, analyze them, apply comments and selection."""
