"""Stages each symptom of docs/diagnosis.md on real workers, and writes what the commands say.

``python -m tests.diagnosis`` writes the outputs of all of them into the page; with names, of those.
"""
