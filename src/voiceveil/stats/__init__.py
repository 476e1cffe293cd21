"""Statistics: estimates with intervals, bootstrap, Wilson intervals, paired comparisons, analysis of variance, power.

Verification metrics with intervals (``estimate``, ``compare``) are in :mod:`voiceveil.metrics`. Each name is imported
when it is first used.

>>> from voiceveil import stats
>>> print(stats.wilson(3, 40))
7.5% [2.6, 19.9]
"""

from __future__ import annotations

import lazy_loader

# The names are those of __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
