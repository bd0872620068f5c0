"""What must be cleared before it may take a slot: by the store of resources, and by a hook.

A request that uses a resource, or that the hook has to see, waits in its lane and takes no credit:
it could not start, so it must not keep others from being pulled that could.
"""

from __future__ import annotations
