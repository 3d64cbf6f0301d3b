"""Python itself: expressions, statements, calls, objects, containers, contexts."""
