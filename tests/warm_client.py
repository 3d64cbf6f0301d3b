"""Asks ``tests/warm_start.py`` for a fork with this process's streams, and ends as that does.

It is started by ``python -I -S`` and imports next to nothing: its start is all that a fork costs.
"""

import _socket
import marshal
import os
import signal
import sys

asking = _socket.socket(_socket.AF_UNIX)
asking.connect(sys.argv[1])
request = marshal.dumps((sys.argv[2:], os.getcwd(), dict(os.environ)))  # noqa: PTH109
streams = b"".join(number.to_bytes(4, sys.byteorder) for number in range(3))
asking.sendmsg([len(request).to_bytes(8, "little")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, streams)])
asking.sendall(request)
for number in range(3):  # who reads what the fork writes sees its end
    os.close(number)
status = int(asking.recv(10) or b"1")
if status < 0:
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)
os._exit(status)
