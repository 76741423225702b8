"""Functions compiled with Numba; imported only by the searches that call them."""
