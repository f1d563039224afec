"""What every part of the page needs."""

from typing import Any

QUIET: dict[str, Any] = {"show_progress": "hidden", "api_visibility": "private", "concurrency_limit": None}
"""How the page's own events run: no veil over what is being read, and no queue behind another browser."""
