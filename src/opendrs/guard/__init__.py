"""A second opinion on every plan. Shares no code with the policies."""
