"""celery-fair beside what a user would pick instead, under the same arrivals and run times.

``python -m tests.benchmarks.others --help``; docs/comparison.md has what it found.
"""
