"""What comes in: creates, cancels, and questions about tasks."""
