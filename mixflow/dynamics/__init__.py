"""HOW it moves: each method is a specification (a frozen dataclass) and a function from a start to a history."""
