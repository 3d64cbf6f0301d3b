"""Pictures of a trace: what runs where, what orders it, and the edge that is missing.

``model`` is what is drawn, free of any notation. ``svg``, ``page`` (HTML), ``png``, ``text``, ``mermaid`` and
``as_json`` are notations of it, and ``story`` tells the same in sentences.
"""
