"""The words of the service as frozen types. Nothing here reads or writes."""
