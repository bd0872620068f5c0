"""What a type checker must refuse of a team's module: one error in each of the three lines."""

from celery_fair import Fair, fair_task

Fair.kind("urgent")
fair_task(kind="urgent")
Fair().job(7)
