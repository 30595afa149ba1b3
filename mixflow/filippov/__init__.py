"""Flow through kinks, for any field that is affine in its gates; knows no transformer."""
