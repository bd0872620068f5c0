"""Our template beside Flower's own, and one more item in its navigation bar."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any, Final

from tornado import template

logger = logging.getLogger(__name__)

OURS: Final = Path(__file__).with_name("templates")
NAVBAR: Final = "navbar.html"

_BROKER = re.compile(r"\n[ \t]*<li\b(?:(?!</li>).)*?reverse_url\('broker'\).*?</li>", re.DOTALL)


class Loader(template.Loader):
    """Flower's loader, which finds ours first."""

    def _create_template(self, name: str) -> template.Template:
        if name == NAVBAR:
            text = with_item((Path(self.root) / name).read_text(encoding="utf-8"))
        elif (OURS / name).is_file():
            text = (OURS / name).read_text(encoding="utf-8")
        else:
            return super()._create_template(name)
        return template.Template(text, name=name, loader=self)


def with_item(navbar: str) -> str:
    """Flower's navigation bar with our item after "Broker", in that one's markup.

    Where that is not found, the page is still at ``/fair``.
    """
    found: Any = _BROKER.search(navbar)
    if found is None:
        logger.warning("celery-fair: Flower's navigation bar has changed; its page is at /fair")
        return navbar
    item = found[0].replace("broker", "fair").replace("Broker", "Fair")
    return navbar[: found.end()] + item + navbar[found.end() :]
