"""One folder a cloud, behind the protocol in `base`."""
