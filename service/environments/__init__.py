"""Named environments: what the operator installed for submitted code to import, beside the service's own packages."""
