"""Tensors on a mesh of processors: layouts, slices, halos, the operations on them, and the program that runs them.

It needs TensorFlow, mesh_tensorflow and NumPy, and imports nothing else of the package but `errors`, `spelling` and
`files`.
"""
