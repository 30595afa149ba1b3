"""HOW it moves: a field and a start become a trajectory."""
