"""The study's own figures; each is a function of plain numbers and gives a matplotlib Figure."""
