"""Machine reassignment of the Google ROADEF/EURO challenge 2012."""
