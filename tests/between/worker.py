"""The processes of the tests of this folder.

TensorFlow takes seconds to import, so one process imports it and is then forked into all others. This is safe because
TensorFlow starts its threads only when it is first used.

The first process reads lines of JSON from its input: the address of a `Group` and the environment of each new process.
A new process joins the others, connects to the group, and calls the functions that the group sends.
"""

import json
import os
import queue
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Client


def main():
    """Forks groups of processes until the input ends."""
    from tests import importing

    importing.poison_tails()
    from tests.between import checks  # noqa: F401 - all processes need it, with TensorFlow

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended processes leave no zombies
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        for index, environ in enumerate(order["environments"]):
            if os.fork() == 0:
                _work(order["address"], index, environ, order["log"])


def _work(address, index, environ, log):
    """Runs one process of a group; never returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    output = os.open(log.format(index), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    null = os.open(os.devnull, os.O_RDONLY)
    for old, new in ((null, 0), (output, 1), (output, 2)):
        os.dup2(old, new)
    os.environ.update(environ)
    group = Client(address)
    group.send((index, os.getpid()))
    calls = queue.SimpleQueue()
    threading.Thread(target=_receive, args=(group, calls), daemon=True).start()
    group.send(_outcome(_join))
    while True:
        group.send(_outcome(*calls.get()))


def _receive(group, calls):
    """Receives calls; ends this process with its group, even if a call waits for another process forever."""
    try:
        while True:
            calls.put(group.recv())
    except (EOFError, OSError):
        os._exit(0)


def _join():
    import mtf_imaging as mi

    return mi.meshes.join().processes.num


def _outcome(fn, *args):
    """Calls a function; returns (True, result) or (False, the error as text)."""
    try:
        return True, fn(*args)
    except BaseException:
        return False, traceback.format_exc()


if __name__ == "__main__":
    main()
