"""What earlier runs found, kept in the user's cache folder: where it is, how it is stored, and by what."""
