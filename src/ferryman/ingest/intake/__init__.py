"""What comes in: plans, orders, questions."""
