"""Stored experiments -> one self-contained document, with every figure, series and trained model beside it."""
