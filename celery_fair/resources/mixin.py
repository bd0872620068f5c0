"""What a `Fair` has for tasks that use what workers share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from celery_fair.resources.resources import Resources


class ResourcesMixin:
    """Both do nothing where no resource is set, and where Redis is away: no task fails for it."""

    resources: Resources

    def charge(
        self,
        resource: str | None = None,
        *,
        tokens: int | None = None,
        requests: int | None = None,
    ) -> None:
        """Say how much was really used, as in ``fair.charge(tokens=response.usage.total_tokens)``.

        In a task the first call replaces what it was thought to use, with 0 too, and more calls add
        up; None says nothing. A client that doesn't tell what was used so leaves the estimate;
        without ``resource`` it is of all that the task uses. Outside of a task, and in a thread
        that the task has started by hand, name one: all of it is charged. Negative numbers give
        back. Raises `BadOption`.
        """
        self.resources.charging.charge(resource, tokens, requests)

    def slow_down(self, resource: str | None = None, *, retry_after: float | None = None) -> None:
        """Say that a resource refuses (HTTP 429): less of it from now on, and no batch for a while.

        ``retry_after`` is in seconds, if it has said so. A task may raise `RateLimited` instead.
        Without ``resource`` it is all that the running task uses. Raises `BadOption`.
        """
        self.resources.charging.slow_down(resource, retry_after)
