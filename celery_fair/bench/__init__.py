"""`fair bench`: what tasks wait for in one's own deployment, before and after a change."""
