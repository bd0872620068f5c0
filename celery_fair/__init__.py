"""Interactive Celery tasks stop waiting behind batch work, and batch keeps a guaranteed share."""

from __future__ import annotations

from celery_fair.ambient import inherit_kind
from celery_fair.app import Fair
from celery_fair.current import current_kind
from celery_fair.errors import (
    AlreadyInstalled,
    BadOption,
    FairError,
    FairWarning,
    JobConflict,
    JobNotFound,
    NotInstalled,
    QueueFull,
    QueueTimeout,
    RateLimited,
    SettingsError,
    StateAway,
    TaskRefused,
    UnknownKind,
)
from celery_fair.headers import FairHeader
from celery_fair.jobs.job import Job
from celery_fair.jobs.progress import Failure, Progress
from celery_fair.jobs.task import job_task
from celery_fair.observer import GateChange, Observer, TaskInfo
from celery_fair.policy.kinds import BATCH, INTERACTIVE, KINDS, Kind
from celery_fair.settings import FairSettings
from celery_fair.task import fair_task

__version__ = "0.1.0"

__all__ = (  # noqa: RUF022 - grouped, not sorted
    # installing and marking
    "Fair",
    "fair_task",
    "job_task",
    "inherit_kind",
    "current_kind",
    # words
    "Kind",
    "KINDS",
    "INTERACTIVE",
    "BATCH",
    # values
    "FairHeader",
    "FairSettings",
    "Job",
    "Progress",
    "Failure",
    # watching
    "Observer",
    "TaskInfo",
    "GateChange",
    # errors
    "FairError",
    "FairWarning",
    "AlreadyInstalled",
    "BadOption",
    "JobConflict",
    "JobNotFound",
    "NotInstalled",
    "QueueFull",
    "QueueTimeout",
    "RateLimited",
    "SettingsError",
    "StateAway",
    "TaskRefused",
    "UnknownKind",
)
