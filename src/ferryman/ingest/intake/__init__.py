"""What comes in: plans, questions, rewinds."""
