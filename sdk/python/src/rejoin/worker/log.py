"""The logger of workers."""

from __future__ import annotations

import logging

log = logging.getLogger("rejoin.worker")
