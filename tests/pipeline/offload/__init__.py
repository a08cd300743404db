"""Moving segments into files, and reading on from there."""
