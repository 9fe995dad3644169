"""What the service signs its artifacts with: the keys' files, and the signer."""
