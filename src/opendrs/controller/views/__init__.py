"""Views: plain documents for operators, computed from records alone."""
