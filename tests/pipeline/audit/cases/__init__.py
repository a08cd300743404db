"""Small logs made by hand, each with what an audit is to find of it."""
