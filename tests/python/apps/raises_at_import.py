"""Cannot be imported."""

raise RuntimeError("no database here")
