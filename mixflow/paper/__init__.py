"""The study of the paper: claims, theory, experiments, report."""
