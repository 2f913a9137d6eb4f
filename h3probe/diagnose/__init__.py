"""From connections to stories: races, findings, verdicts. Sans-IO."""
