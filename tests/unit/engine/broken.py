"""A module that can't be imported, as one of a team's that isn't configured."""

raise RuntimeError("no configuration")
