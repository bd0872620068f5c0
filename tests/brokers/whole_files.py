"""Messages that this process sends over kombu's filesystem transport appear whole.

kombu writes them under the name by which a worker looks for them. One that takes a file before it
is written ends with a JSON error, with or without celery-fair.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from time import monotonic
from typing import Any

from kombu.transport.filesystem import Channel
from kombu.utils.json import dumps


def write_whole_files(monkeypatch: Any) -> None:
    """Have each message written under another name first, as long as the test takes."""
    monkeypatch.setattr(Channel, "_put", _put)


def _put(self: Any, queue: str, payload: Any, **_: Any) -> None:
    name = f"{round(monotonic() * 1000)}_{uuid.uuid4()}.{queue}.msg"
    folder = Path(self.data_folder_out)
    part = folder / f"{name}.part"
    part.write_text(dumps(payload))
    part.rename(folder / name)
