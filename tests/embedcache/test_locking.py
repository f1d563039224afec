import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from frostbench.embedcache.storage.files import CacheError
from frostbench.embedcache.storage.locking import is_locked, write_lock

HOLD = """
import sys, time
from pathlib import Path
from frostbench.embedcache.storage.locking import write_lock
with write_lock(Path(sys.argv[1])):
    Path(sys.argv[2]).touch()
    time.sleep(600)
"""


def test_a_second_process_is_told_who_writes_and_a_killed_one_holds_nothing(tmp_path: Path) -> None:
    cache, ready = tmp_path / "cache", tmp_path / "ready"
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(cache), str(ready)])
    try:
        until = time.monotonic() + 60
        while not ready.exists():
            assert child.poll() is None
            assert time.monotonic() < until
            time.sleep(0.02)
        assert is_locked(cache)
        told = rf"process {child.pid} on {socket.gethostname()} is writing .*cache\. Wait until it ends or stop it"
        with pytest.raises(CacheError, match=told), write_lock(cache):
            pass
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert not is_locked(cache)
    with write_lock(cache):
        assert is_locked(cache)
    assert sorted(path.name for path in cache.iterdir()) == ["lock"]


def test_one_process_does_not_write_twice_either(tmp_path: Path) -> None:
    with write_lock(tmp_path):
        with pytest.raises(CacheError, match=f"process {os.getpid()} on"), write_lock(tmp_path):
            pass
        (tmp_path / "lock.json").write_text("{")
        with pytest.raises(CacheError, match="but another process is writing"), write_lock(tmp_path):
            pass
        assert is_locked(tmp_path)
    assert not is_locked(tmp_path)
    assert not is_locked(tmp_path / "elsewhere")
