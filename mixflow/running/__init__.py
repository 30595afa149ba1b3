"""From a specification to a Run: which model serves, then descent, flow or three stages, alone or many at once."""

MODELS = ("auto", "full", "gram", "symmetric")
