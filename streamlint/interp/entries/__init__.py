"""Where a program starts, and in which order outside code may call it."""
