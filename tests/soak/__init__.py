"""A long run under mixed load, beside a stock worker: what stays, and what grows."""
