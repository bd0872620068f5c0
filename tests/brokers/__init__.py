"""Real brokers for tests, as child processes on loopback ports."""
