"""Runs the analysis over programs that nobody would write, and says where it fails.

    python -m benchmarks.fuzz --seed 1 --count 10000
    python -m benchmarks.fuzz --seed 1 --seconds 600 --from ~/src/project --keep /tmp/failed

Programs are mutations of the fixtures, and of real files with ``--from``; sentences of a grammar over the
modelled libraries; and bytes. Number ``n`` of a seed is always the same program. Watched are internal errors,
time, memory, whether a second run says the same, and whether findings come and go with a comment. What fails
is kept with ``--keep``, and a child that hangs is killed: the parent goes on with the next program.
"""

from __future__ import annotations
