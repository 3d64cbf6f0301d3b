"""The error that users see as a message."""


class UserError(Exception):
    """Something the user can put right; the text says what, and names the file, key or option."""
