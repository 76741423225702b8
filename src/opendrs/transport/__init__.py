"""HTTP, TLS and secrets, as all adapters use them."""
