"""What runs on the machine: the standard library of Python 3.8 and, where it is there, PyTorch."""
