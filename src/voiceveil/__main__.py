"""``python -m voiceveil``: the ``voiceveil`` command.

Python puts the working directory first on the module search path, where a file may be planted beside recordings. It
is taken out before anything else is imported. Python's own start (``runpy``) has looked there before: `voiceveil`, or
``python -P -m voiceveil``, never does.
"""

import os
import sys

if sys.path[0] in ("", os.getcwd()):  # noqa: PTH109 -- nothing else may be imported yet
    del sys.path[0]

from voiceveil.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
