"""The web page: a server on this machine only that calls train() and draws what it returns; owns no mathematics."""
