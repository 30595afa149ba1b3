"""Runs: train one or many, the labelled dataset, go on, weights, files; the only wiring of engines and methods."""
