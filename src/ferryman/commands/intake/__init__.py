"""What comes in: commands, and results from outside."""
