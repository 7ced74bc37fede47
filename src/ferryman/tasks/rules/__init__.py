"""What should happen to a task; pure decisions."""
