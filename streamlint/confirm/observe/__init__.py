"""The observed trace: what a program really did on a GPU, judged like a predicted one.

``torch_tracer`` and ``cuda_tracer`` see the calls of a running program and tell a ``Recorder``. It keeps
compact ``events``, and hands them over in windows of bounded size. ``translate`` makes an ordinary
``Trace`` of a window, and the same happens-before order and the same rules find what nothing orders.
"""
