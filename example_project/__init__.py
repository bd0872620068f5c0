"""A document service in small: people ask, documents are summarized in bulk."""
