"""One module a library: how its workers are started, and how a task of a kind is published.

Each has ``workers(slots)`` and ``submit(kind, call)``. It is imported in the process that publishes
and in the workers, with the broker's address, the journal and the ruler's setup in the environment.
"""
