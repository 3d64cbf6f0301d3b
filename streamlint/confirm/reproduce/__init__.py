"""Small programs of their own that replay what a finding predicts."""
