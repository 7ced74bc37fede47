"""What should happen; pure."""
