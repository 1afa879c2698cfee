"""What a page reads, noted in its own kernel. The text of this file is executed there, before the first cell.

Python says which files it opens and which folders it lists (`sys.audit`). HDF5 opens records by itself, but the package looks
first whether a record is there; a page also depends on records that are not. So `os.stat` is listened to as well.
"""

import json
import os
import sys

# These list folders on behalf of a pattern that was noted, or of an import, which is noted by its module.
_ON_BEHALF = ("importlib", "pathlib", "glob.py")


class Reads:
    """Paths and patterns below some folders, as they are read.

    Attributes:
        paths: files and folders that were looked for or opened to be read.
        patterns: of names that were listed.
        python: whether another Python was started, whose reads nobody notes.
    """

    def __init__(self, folders):
        self.folders = tuple(os.path.join(folder, "") for folder in folders)
        self.paths, self.patterns, self.python = set(), set(), False
        stat = os.stat

        def noted(path, *args, **options):
            self.note(path)
            return stat(path, *args, **options)

        os.stat = noted
        sys.addaudithook(self.hear)

    def hear(self, event, args):
        """An audit hook."""
        if event == "open":
            path, mode, flags = args
            writes = set("wax+") & set(mode) if isinstance(mode, str) else flags & (os.O_WRONLY | os.O_RDWR)
            if not writes:
                self.note(path)
        elif event in ("os.listdir", "os.scandir"):
            by = sys._getframe(1).f_code.co_filename
            if not any(part in by for part in _ON_BEHALF):
                self.note(args[0] or ".", self.patterns, "*")
        elif event == "glob.glob":
            self.note(args[0], self.patterns)
        elif event in ("pathlib.Path.glob", "pathlib.Path.rglob"):
            self.note(args[0], self.patterns, *["**"] * event.endswith("rglob"), args[1])
        elif event == "subprocess.Popen" and args[0] == sys.executable:
            self.python = True

    def note(self, path, noted=None, *pattern):
        """Keep a path if it is below the folders, perhaps with a pattern behind it."""
        if not isinstance(path, str | bytes | os.PathLike):  # the number of an open file
            return
        path = os.path.abspath(os.path.join(os.fsdecode(path), *map(str, pattern)))
        # IPython asks of every text that is displayed whether there is a file of that name.
        if path.startswith(self.folders) and "\n" not in path:
            (self.paths if noted is None else noted).add(path)

    def write(self, path):
        """Write what was read to a file, as JSON."""
        for module in list(sys.modules.values()):
            self.note(getattr(module, "__file__", None))
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"paths": sorted(self.paths), "patterns": sorted(self.patterns), "python": self.python}, file)
