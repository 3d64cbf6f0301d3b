"""What code says that is not running: who calls what, which stream a name stands for, what a text orders."""
