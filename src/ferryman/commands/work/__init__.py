"""What is done: the user's mappings and capabilities, run as tasks."""
