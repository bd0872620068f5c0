"""A kind spread over shard queues, so that one tenant's messages don't stand before all others'.

``docs/tenants.md`` has the order of steps for growing and shrinking, and the figures.
"""
