"""From paths to findings: rules, doubts, responsibility, causes before symptoms."""
