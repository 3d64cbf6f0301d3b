"""What a path has and knows: values, memory, streams, captures, and the decisions taken."""
