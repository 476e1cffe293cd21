"""Models that analyze speech: recognizers of words and emotion, pitch trackers, naturalness, speaker encoders.

Each name is imported when it is first used.
"""

from __future__ import annotations

import lazy_loader

# The names are those of __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
