"""What agents ask of the controller, and how it answers."""
