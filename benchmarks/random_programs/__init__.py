"""Random programs about streams, of which an oracle of its own knows what is unordered.

``abstract`` says what a program is, ``oracle`` executes it, ``grow`` makes one that is right, and ``write``
prints it as Python for a library. None of them uses the analyzer; ``compare`` does.
"""
