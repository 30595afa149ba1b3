"""One file for each figure or question: config -> run -> verdict and figure."""
