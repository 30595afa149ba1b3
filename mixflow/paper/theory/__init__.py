"""What is claimed: each statement as a quantity, a prediction and a measurement that can fail."""
