"""mixflow: the laboratory for watching a transformer learn a hidden correspondence, exactly."""
