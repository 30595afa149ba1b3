"""Labelled dataset -> Figure; never computes dynamics."""
