"""Documents of the operator API: what its requests and responses contain."""
