"""WHO learns: each network as a specification (a frozen dataclass) of what is trained."""
