"""The test suite by tiers, and the servers and workers that it uses."""
