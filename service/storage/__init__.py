"""Rows and files; the only SQLAlchemy."""
