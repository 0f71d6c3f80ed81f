"""Q-learning on a GPU: the kernels of `kernel.cu`, one run per thread, equal to the CPU bit for
bit.

Drivers call `play.py`. It encodes a call as arrays (`encode.py`), plans the memory of the GPU
(`plan.py`), compiles the kernels for the problem (`compiler.py`) and launches them piece by piece
through NVIDIA's driver (`driver.py`).
"""
