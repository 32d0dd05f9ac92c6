"""Set-up that runs as soon as a module is imported, so that tests of pure Python do not import TensorFlow for it."""

import importlib
import importlib.util
import sys


class _AfterImport:
    """An import hook that calls a function as soon as a module has been imported."""

    def __init__(self, name, call):
        self.name, self.call = name, call

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def exec_module(module):
            execute(module)
            self.call(module)

        spec.loader.exec_module = exec_module
        return spec


def after_import(name, call):
    """Calls `call(module)` as soon as the named module has been imported."""
    sys.meta_path.insert(0, _AfterImport(name, call))


def poison_tails():
    """Poisons the tails of uneven slices in all programs. Even slices have no tails, so their graphs do not change."""

    def poison(lowering):
        importlib.import_module("tests.poison").install(lowering.Lowering, lowering.ShardMeshImpl)

    after_import("mtf_imaging.engine.program.lowering", poison)
