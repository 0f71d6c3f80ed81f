"""Q-learning on a GPU: the kernels of `kernel.cu`, one run a thread, equal to the CPU to the bit.

`play.py` is what drivers call. It works a call out as arrays (`encode.py`), plans the memory of the
GPU (`plan.py`), compiles the kernels for the problem at hand (`compiler.py`) and launches them
piece by piece through NVIDIA's driver (`driver.py`).
"""
