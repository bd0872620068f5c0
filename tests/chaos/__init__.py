"""A seeded run of everything at once: workers, children, connections and brokers that die."""
