"""What the user asked for: configuration, choice of rules, suppressions, baselines."""
