"""Tracehouse's API process, and the floors that its workers share."""
