"""Flower with the Fair page as a process, made-up workers for it to hear of, and a browser."""
