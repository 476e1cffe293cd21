"""The metrics: pure functions, arrays in, floats or frozen dataclasses out; rates are fractions in [0, 1].

Each name is imported when it is first used; each module opens with its conventions and its functions. No module has the
name of a function, since importing the module would hide the function.
"""

from __future__ import annotations

import lazy_loader

# The names are those of __init__.pyi.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
