"""Programs that run beside the API; torch lives here."""
